"""A request in plain arguments -> records: what the command line, a library and a page in a browser all ask.

`planned.py` is the way from a model to its plans, `prepared.py` from there to recipes, `library.py` what `upright.plan`
and its neighbours are; all are pure but `asking.py`, which turns what people type into a request and looks at what they
name.
"""
