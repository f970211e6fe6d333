"""Fetches exactly the files that an engine needs of a repository, and verifies them."""

from upright.serving.fetch.artifact import Fetched as Fetched
from upright.serving.fetch.artifact import fetch as fetch
from upright.serving.fetch.artifact import find_weights as find_weights
from upright.serving.fetch.background import BackgroundFetch as BackgroundFetch
from upright.serving.fetch.need import FetchNeed as FetchNeed
from upright.serving.fetch.need import fetch_need as fetch_need
from upright.serving.fetch.progress import FetchProgress as FetchProgress
