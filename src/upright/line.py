"""box + model -> ... -> report: the whole flow on one screen."""
