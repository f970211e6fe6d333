"""Recipe -> what the engine's own parser says of it."""

from upright.checking.check import check as check
