"""How fast: a decode step and the reading of a prompt, as sums of terms that hardware is known for.

Constants are rows of the catalogue (`upright catalog list speeds`), fitted on published runs or on a person's own.
"""
