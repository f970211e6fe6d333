"""The planner as static files: it plans in the visitor's own browser.

`publishing.py` writes the folder (`upright tools site build`); `page_answers.py` is what the page's worker calls, the
same requests as the command line's; `page/` is the page itself, plain modules that no tool has to build.
"""
