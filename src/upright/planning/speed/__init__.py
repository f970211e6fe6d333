"""Predicts speed: a decode step and prefill, as sums of terms that hardware is known for.

Constants are rows of the catalogue (`upright catalog list speeds`), fitted on published runs or on a person's own.
"""
