"""What went wrong, in words a person can act on.

UprightError            expected: one line, a hint, no traceback, exit code 2
├── UsageError          the words of the call are off
├── ReadError           a model's file or repository cannot be read
│   └── UnreachedError  the hub cannot be resolved: there is no network
├── FetchError          a model's files could not all be fetched: no room, wrong bytes, another at it
├── RecordError         a record on disk is torn, changed, or of an unknown schema
├── StoreError          the store cannot be written: full, locked by another, or its end was removed
├── CatalogError        a row is wrong, or the name is in no catalogue
├── HostError           a command on this machine or over ssh failed
├── EngineError         an engine is missing, or refuses to do what was asked
├── LaunchError         a deployment could not be started or stopped
└── EndpointError       a running engine did not answer as it should
    └── UnansweredError it took the question and gave no answer in time

The answer "no" (does not fit, not proved) is a record, never an error.
"""

from __future__ import annotations


class UprightError(Exception):
    """An expected failure: `message` says what is wrong with which name, `hint` what to do next."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(UprightError):
    pass


class ReadError(UprightError):
    pass


class UnreachedError(ReadError):
    pass


class FetchError(UprightError):
    pass


class RecordError(UprightError):
    pass


class StoreError(UprightError):
    pass


class CatalogError(UprightError):
    pass


class HostError(UprightError):
    pass


class EngineError(UprightError):
    pass


class LaunchError(UprightError):
    pass


class EndpointError(UprightError):
    """`status` is the HTTP status of a refusal, or of an answer that is no JSON; None if there was no answer at all."""

    def __init__(self, message: str, *, hint: str | None = None, status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class UnansweredError(EndpointError):
    pass
