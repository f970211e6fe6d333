"""A repository -> exactly the files that an engine needs of it, on this disk and verified."""

from upright.fetching.artifact import Fetched as Fetched
from upright.fetching.artifact import fetch as fetch
from upright.fetching.background import Arriving as Arriving
from upright.fetching.need import Need as Need
from upright.fetching.need import need as need
from upright.fetching.progress import FetchProgress as FetchProgress
from upright.fetching.weights import find_weights as find_weights
