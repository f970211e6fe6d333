"""The model that a deployment serves, as clients see it, and the ClientSettings made from it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from upright.serving.connect.client_settings import ClientSettings, Protocol

PROVIDER = "upright"
KEY_VARIABLE = f"{PROVIDER.upper()}_API_KEY"
_MOST_OUTPUT_TOKENS = 32_000


@dataclass(frozen=True)
class ServedModel:
    """What a client needs to know of a deployment."""

    name: str
    base_url: str
    model: str
    key_file: str
    context_tokens: int

    @property
    def output_tokens(self) -> int:
        """The longest answer to ask for: a quarter of the context; clients would else ask for more than fits."""
        return max(1, min(_MOST_OUTPUT_TOKENS, self.context_tokens // 4))

    def address(self, protocol: Protocol) -> str:
        """What clients of that protocol call the base URL."""
        return f"{self.base_url}/v1" if protocol == "openai" else self.base_url

    @property
    def key(self) -> str:
        """How a shell reads it."""
        return f'"$(cat {shlex.quote(self.key_file)})"'


def shell_settings(
    served: ServedModel,
    client: str,
    protocol: Protocol,
    environment: dict[str, str],
    key_variable: str,
    *,
    source: str,
    program: str | None = None,
    arguments: tuple[str, ...] = (),
    file: str | None = None,
    settings: dict[str, Any] | None = None,
    notes: tuple[str, ...] = (),
) -> ClientSettings:
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines += [f"export {key_variable}={served.key}", *(f"# {note}" for note in notes), f"# model: {served.model}"]
    lines += [shlex.join((program, *arguments))] if program else []
    return make_settings(
        served,
        client,
        protocol,
        "\n".join(lines) + "\n",
        environment=environment,
        key_variables=(key_variable,),
        file=file or f"{served.name}-{client}.sh",
        settings=settings,
        program=program,
        arguments=arguments,
        source=source,
    )


def make_settings(
    served: ServedModel,
    client: str,
    protocol: Protocol,
    text: str,
    *,
    source: str,
    environment: dict[str, str] | None = None,
    key_variables: tuple[str, ...] = (),
    file: str | None = None,
    settings: dict[str, Any] | None = None,
    program: str | None = None,
    arguments: tuple[str, ...] = (),
) -> ClientSettings:
    return ClientSettings(
        client=client,
        protocol=protocol,
        base_url=served.address(protocol),
        model=served.model,
        key_file=served.key_file,
        environment=environment or {},
        key_variables=key_variables,
        context_tokens=served.context_tokens,
        output_tokens=served.output_tokens,
        file=file,
        settings=settings,
        program=program,
        arguments=arguments,
        text=text,
        source=source,
    )
