"""Recipe -> what the engine's own parser says of it."""

from upright.serving.check.check import check as check
