"""Unknown is not no: a size that nobody published, system RAM that nobody gave."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from upright.cli.plan import command


def page(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setenv("NO_COLOR", "1")
    return " ".join(CliRunner().invoke(command, words, prog_name="upright plan").output.split())


def test_a_build_without_a_published_size_is_planned_by_its_shapes(monkeypatch):
    shown = page(monkeypatch, "minimax-m2.7", "--box", "2x-rtx-pro-6000-workstation")
    assert "MiniMax-M2.7-NVFP4: fits" in shown
    assert "No artifact of this model fits" not in shown


def test_system_ram_that_nobody_gave_is_asked_for(monkeypatch):
    shown = page(monkeypatch, "kimi-k2.6", "--box", "8x-rtx-5090")
    assert "16 GiB are assumed" not in shown
    assert "system RAM of this box is not specified" in shown
    assert "next: upright plan kimi-k2.6 --box 8x-rtx-5090 --ram 512GB" in shown
