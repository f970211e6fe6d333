"""Records -> one self-contained page, as HTML or Markdown, and tables as CSV."""

from upright.reporting.markdown import markdown as markdown
from upright.reporting.page import Subject as Subject
from upright.reporting.page import report as report
from upright.reporting.tables import cells_csv as cells_csv
