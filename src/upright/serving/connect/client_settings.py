"""Settings of one client, as a record that programs read too."""

from __future__ import annotations

from typing import Any, Literal

from upright.facts.records.base import Part

Protocol = Literal["openai", "anthropic"]


class ClientSettings(Part):
    """Settings for one client; the key is not among them."""

    client: str
    """Whose settings these are."""
    protocol: Protocol
    """What it speaks: chat completions, or messages."""
    base_url: str
    """What this client calls its base URL."""
    model: str
    """The served name."""
    key_file: str
    """The file that holds the key."""
    environment: dict[str, str]
    """Variables to set; the key's variable is not among them."""
    key_variables: tuple[str, ...]
    """Variables that must hold the content of `key_file`."""
    context_tokens: int
    """What is served to each user."""
    output_tokens: int
    """The longest answer that the client should ask for."""
    file: str | None = None
    """Where `--write` puts them: the client's own file, or a script to source; None if it has neither."""
    settings: dict[str, Any] | None = None
    """What is merged into that file; None if the text is the file."""
    program: str | None = None
    """The client's own command; None if it is no program of a terminal."""
    arguments: tuple[str, ...] = ()
    """What the command is told besides the variables."""
    text: str
    """Ready to paste."""
    source: str
    """Where the client's words for these settings are documented."""
