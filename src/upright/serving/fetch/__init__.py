"""A repository -> exactly the files that an engine needs of it, on this disk and verified."""

from upright.serving.fetch.artifact import Fetched as Fetched
from upright.serving.fetch.artifact import fetch as fetch
from upright.serving.fetch.background import Arriving as Arriving
from upright.serving.fetch.need import Need as Need
from upright.serving.fetch.need import need as need
from upright.serving.fetch.progress import FetchProgress as FetchProgress
from upright.serving.fetch.weights import find_weights as find_weights
