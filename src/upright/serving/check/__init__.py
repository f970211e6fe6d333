"""Checks a recipe with the engine's own parser."""

from upright.serving.check.check import DeepCheck as DeepCheck
from upright.serving.check.check import check as check
