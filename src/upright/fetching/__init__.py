"""A repository -> exactly the files that an engine needs of it, on this disk and verified."""

from upright.fetching.fetch import Fetched as Fetched
from upright.fetching.fetch import bring as bring
from upright.fetching.fetch import fetch as fetch
from upright.fetching.need import Need as Need
from upright.fetching.need import need as need
from upright.fetching.progress import Progress as Progress
from upright.fetching.weights import find_weights as find_weights
