"""Unknown is not no: a size that nobody published, system RAM that nobody gave."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from upright.app.cli.plan import command


def page(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setenv("NO_COLOR", "1")
    return " ".join(CliRunner().invoke(command, words, prog_name="upright plan").output.split())


def test_a_build_without_a_published_size_is_planned_by_its_shapes(monkeypatch):
    shown = page(monkeypatch, "minimax-m2.7", "--box", "2x-rtx-pro-6000-workstation")
    assert "MiniMax-M2.7-NVFP4: fits" in shown
    assert "No artifact of this model fits" not in shown


def test_system_ram_that_nobody_gave_is_asked_for(monkeypatch):
    shown = page(monkeypatch, "kimi-k2.6", "--box", "8x-rtx-5090")
    assert "16 GiB" not in shown
    assert "Kimi-K2.6-GGUF:UD-Q8_K_XL: not known, it depends on system RAM" in shown
    assert "does not fit" not in shown
    assert "No artifact of this model fits without more system RAM" in shown
    assert "system RAM of this box is not specified" in shown
    assert "next: upright plan kimi-k2.6 --box 8x-rtx-5090 --ram 512GB" in shown


def test_what_is_needed_of_it_is_told(monkeypatch):
    shown = page(monkeypatch, "kimi-k2.6", "--box", "8x-rtx-5090", "--engine", "llama.cpp")
    assert "GiB of system RAM are needed, and how much this box has is not specified" in shown
    assert "of 15.5 GiB" not in shown
    given = page(monkeypatch, "kimi-k2.6", "--box", "8x-rtx-5090", "--engine", "llama.cpp", "--ram", "768GB")
    assert "fits" in given
    assert "how much this box has is not specified" not in given


def test_the_next_command_spells_system_ram_as_people_do(monkeypatch):
    shown = page(monkeypatch, "kimi-k2.6", "--box", "1x-rtx-pro-6000-server", "--host-memory", "512")
    assert shown.endswith("--box 1x-rtx-pro-6000-server --ram 512")
