"""Where GPU and system share one memory, the engine ends before the machine hangs; elsewhere nobody looks."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from upright.facts.records.recipe import Circumstances, Recipe
from upright.serving.launch import memory_guard
from upright.serving.launch.memory_guard import MemoryGuard
from upright.serving.launch.supervisor import Supervisor


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_guard, "LOOK_SECONDS", 0.0)


def recipe(*, unified: bool | None) -> Recipe:
    about = None if unified is None else Circumstances(unified_memory=unified)
    return Recipe(
        engine="vllm", engine_version=None, circumstances=about, runtime="process", program="x", arguments=(),
        model_path="m", served_name="m", host="127.0.0.1", port=1, context_tokens=1, users=1, health_path="/health",
        metrics_path=None,
    )  # fmt: skip


def meminfo(available_gib: float, total_gib: float = 119.6) -> str:
    total, available = (int(size * 2**20) for size in (total_gib, available_gib))
    return f"MemTotal:       {total} kB\nMemFree:  1 kB\nMemAvailable:   {available} kB\nBuffers: 2 kB\n"


def test_two_looks_in_a_row_end_it_and_say_how_much_was_left():
    guard = MemoryGuard(recipe(unified=True), lambda: meminfo(2))
    assert guard.trouble() is None
    assert (guard.trouble() or "").startswith("the system had 2.00 GiB of memory left, which GPU and system share")


def test_a_short_peak_ends_nothing():
    looks = iter([meminfo(2), meminfo(20), meminfo(2), meminfo(20)])
    guard = MemoryGuard(recipe(unified=True), lambda: next(looks))
    assert [guard.trouble() for _ in range(4)] == [None] * 4


@pytest.mark.parametrize("unified", [False, None])
def test_a_gpu_with_memory_of_its_own_is_not_watched(unified):
    def nobody_looks() -> str:
        raise AssertionError

    guard = MemoryGuard(recipe(unified=unified), nobody_looks)
    assert [guard.trouble() for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("text", ["", "MemTotal: 5 kB\n", "garbage\x00", "MemAvailable: 5 kB\n"])
def test_what_cannot_be_read_ends_nothing(text):
    guard = MemoryGuard(recipe(unified=True), lambda: text)
    assert [guard.trouble() for _ in range(3)] == [None] * 3


def test_it_looks_only_now_and_then(monkeypatch):
    monkeypatch.setattr(memory_guard, "LOOK_SECONDS", 60.0)
    looks = []
    guard = MemoryGuard(recipe(unified=True), lambda: looks.append(time.monotonic()) or meminfo(2))
    for _ in range(5):
        guard.trouble()
    assert len(looks) == 1


def test_the_supervisor_ends_it_at_once_writes_why_and_does_not_start_it_again(tmp_path):
    class Running:
        ended_within: float | None = None

        def tend(self, base_url: str, there: str) -> None: ...
        def exit_code(self) -> int | None:
            return None

        def end(self, process: object, *, patience_seconds: float = 10) -> None:
            self.ended_within = patience_seconds

    class Keeper(Supervisor):
        deployment = SimpleNamespace(base_url="http://127.0.0.1:1", process=None, machine=None)

    keeper, place = Keeper.__new__(Keeper), Running()
    keeper.place, keeper.recipe = place, recipe(unified=True)
    keeper.directory = SimpleNamespace(log=tmp_path / "engine.log", name="spark", path=tmp_path)
    keeper.runtime = SimpleNamespace(remove=lambda name: None)
    keeper.workers = SimpleNamespace(look=lambda process: None)
    keeper.guard = MemoryGuard(keeper.recipe, lambda: meminfo(1))
    keeper.stopping, keeper.broken, keeper.out_of_memory = False, None, False
    keeper.notes = SimpleNamespace(catch_up=lambda: None)
    keeper._note = lambda **fields: None
    assert keeper._runs()
    assert not keeper._runs()
    keeper._end_engine()
    assert place.ended_within == 1.0
    assert "which GPU and system share" in (keeper.broken or "")
    assert (tmp_path / "engine.log").read_text().startswith("upright: the system had 1.00 GiB of memory left")


def test_a_supervisor_that_breaks_says_so_even_if_the_engine_cannot_be_ended() -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError("no such process group")

    notes: list[dict[str, object]] = []
    broken = Supervisor.__new__(Supervisor)
    broken.__dict__.update(
        place=SimpleNamespace(end=refuses), deployment=SimpleNamespace(process=None), recipe=recipe(unified=None),
        out_of_memory=False, _note=lambda **fields: notes.append(fields),
    )  # fmt: skip
    broken._give_up(RuntimeError("a bug"))
    assert [(note["state"], note["reason"]) for note in notes] == [
        ("failed", "its supervisor broke: RuntimeError: a bug")
    ]
