"""Plan -> Recipe -> files."""

from upright.rendering.recipe import render as render
