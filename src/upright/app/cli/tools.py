"""`upright tools`: verbs that stand under it."""

from __future__ import annotations

import click

from upright.app.cli.lazy import FoldingGroup
from upright.app.cli.verbs import FOLDED


class _Tools(FoldingGroup):
    table = FOLDED["tools"]


@click.group(cls=_Tools, context_settings={"auto_envvar_prefix": "UPRIGHT"})
def command() -> None:
    """What one needs now and then: engines, kernels, monitoring, upkeep."""
