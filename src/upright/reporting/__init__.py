"""Records of a deployment -> one self-contained page."""

from upright.reporting.page import Subject as Subject
from upright.reporting.page import report as report
