"""Layers, tensors and weights of a model, derived from its configuration or its catalogue row."""
