"""Requests -> what became of each, from raw connections; no engine and no record of ours is needed to use it."""

from upright.benchmarking.load.apis import LoadTarget as LoadTarget
from upright.benchmarking.load.apis import Message as Message
from upright.benchmarking.load.flight import Flight as Flight
from upright.benchmarking.load.generator import run as run
from upright.benchmarking.load.open_files import allow_open_files as allow_open_files
from upright.benchmarking.load.requests import Arrivals as Arrivals
from upright.benchmarking.load.requests import Landing as Landing
from upright.benchmarking.load.requests import Request as Request
from upright.benchmarking.load.requests import RequestSource as RequestSource
from upright.benchmarking.load.tally import StreamTally as StreamTally
