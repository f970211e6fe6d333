"""Plan -> Recipe -> files."""

from upright.planning.rendering.recipe import render as render
