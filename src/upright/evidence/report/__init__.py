"""Records -> one self-contained page, as HTML or Markdown, and tables as CSV."""

from upright.evidence.report.markdown import markdown as markdown
from upright.evidence.report.page import Subject as Subject
from upright.evidence.report.page import report as report
from upright.evidence.report.tables import cells_csv as cells_csv
