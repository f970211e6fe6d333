"""Load generator on raw connections; no engine and no record of ours is needed to use it."""

from upright.proof.benchmark.load.apis import LoadTarget as LoadTarget
from upright.proof.benchmark.load.apis import Message as Message
from upright.proof.benchmark.load.generator import GeneratorStats as GeneratorStats
from upright.proof.benchmark.load.generator import run as run
from upright.proof.benchmark.load.open_files import allow_open_files as allow_open_files
from upright.proof.benchmark.load.requests import Arrivals as Arrivals
from upright.proof.benchmark.load.requests import Request as Request
from upright.proof.benchmark.load.requests import RequestResult as RequestResult
from upright.proof.benchmark.load.requests import RequestSource as RequestSource
from upright.proof.benchmark.load.tally import StreamTally as StreamTally
