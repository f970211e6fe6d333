"""Rehearses a recipe with a model without weights, before the download."""

from upright.serving.rehearse.rehearse import rehearse as rehearse
from upright.serving.rehearse.weightless_model import WeightlessModel as WeightlessModel
from upright.serving.rehearse.weightless_model import fetch_weightless as fetch_weightless
