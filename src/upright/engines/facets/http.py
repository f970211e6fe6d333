"""Where an engine's server is asked, and how it introduces itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from upright.facts.records.recipe import KeyDelivery


class Http(NamedTuple):
    """An engine's own HTTP server."""

    health_path: str
    metrics_path: str | None
    """None if it exports none."""
    metrics_guarded: bool
    """Whether its metrics want the API key."""
    key_way: KeyDelivery
    """How it takes the API key without showing it in a process listing."""
    owner: str | None = None
    """The word by which it is known in `owned_by` of a model that it lists; None if it does not say."""
    server: str | None = None
    """The `Server` header of its answers, by which a fork is told from what it was forked from; None: another's."""
    slots: bool = False
    """Whether each request has a slot with a context of its own, told at /slots and /props as llama-server does."""
    healthy_while_loading: bool = False
    """Whether its health page answers before the weights are loaded: then only an answer tells, however late, and a
    page that says anything else says that what served has ended, though the process has not."""
    only_name: str | None = None
    """The one model name that serves what was started, where others are taken for models to load; None: as told."""
    limits_context: bool = True
    """Whether a prompt that is longer than its context is refused; where nothing limits it, it is read to its end, and
    so is one of which nobody waits for the answer any more."""
    reads_x_api_key: bool | None = None
    """Whether it takes the key in Anthropic's own header; None: not known."""
