"""`upright share`: verbs that stand under it."""

from __future__ import annotations

import click

from upright.app.cli.lazy import FoldingGroup
from upright.app.cli.verbs import FOLDED


class _Share(FoldingGroup):
    table = FOLDED["share"]


@click.group(cls=_Share, context_settings={"auto_envvar_prefix": "UPRIGHT"})
def command() -> None:
    """Hand evidence on, and check what others hand you."""
