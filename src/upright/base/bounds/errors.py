"""Errors of a peer that exceeded a limit, in words that follow its name."""

from __future__ import annotations


class ExceededError(Exception):
    """What the peer did: `sent more than 16 MB`. Whoever asked turns it into an error that names the peer."""


class OverdueError(ExceededError):
    """It took more time than it had."""
