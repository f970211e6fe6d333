"""Other people's load generators: run them on the same endpoint, read what they wrote into the same records.

Each file knows one tool, and an engine's own tool is in the engine's folder: the words that start it, and where its
result keeps which figure. What a tool does not measure stays unknown, and what it calls by the same name but computes
otherwise is left out.
"""

from upright.proof.benchmark.drivers.driver import drive as drive
from upright.proof.benchmark.drivers.driver import drivers as drivers
from upright.proof.benchmark.drivers.driver import read_result_file as read_result_file
