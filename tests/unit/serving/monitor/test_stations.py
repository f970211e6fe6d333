"""What is said of an engine between two readings, and while it does not answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from upright.app.pages.top_page import state_of
from upright.base.errors import EndpointError, HostError
from upright.base.host import Result
from upright.serving.endpoint.metrics import Metrics
from upright.serving.endpoint.slots import read_slots
from upright.serving.monitor import polling, power
from upright.serving.monitor.polling import DeploymentPoller, DeploymentSource, DeploymentSummary

LOOK = DeploymentSummary("kimi", "ready", next="upright diagnose kimi")


class Scripted:
    """Answers with what it is told to, one after another; the last for ever."""

    def __init__(self, *answers: Metrics | str) -> None:
        self.answers = list(answers)
        self.read_times = 0

    def look(self) -> DeploymentSummary:
        return LOOK

    def read(self) -> Metrics:
        self.read_times += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, str):
            raise EndpointError(answer)
        return answer


def nothing() -> None:
    return None


def until(fact: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_rates_and_shares_are_those_of_the_time_it_is_watched() -> None:
    first = Metrics(
        generation_tokens=100, prompt_tokens=1000, cached_tokens=900, draft_tokens=50, accepted_tokens=5, errors=7,
        first_tokens=10, first_token_seconds=99, running=1, waiting=0, kv_usage=0.2,
    )  # fmt: skip
    later = replace(
        first, generation_tokens=150, prompt_tokens=1200, cached_tokens=950, draft_tokens=150, accepted_tokens=75,
        errors=9, first_tokens=14, first_token_seconds=101, running=3, waiting=2, kv_usage=0.4,
    )  # fmt: skip
    with DeploymentPoller(Scripted(first, later), 0.05, nothing) as station:
        until(lambda: station.settled)
        sight = station.sight()
    assert (sight.running, sight.waiting, sight.kv_usage) == (3, 2, 0.4)
    assert (sight.cached, sight.acceptance, sight.errors, sight.first_token_seconds) == (0.25, 0.7, 2, 0.5)
    assert sight.output_per_second is not None
    assert sight.prompt_per_second == pytest.approx(4 * sight.output_per_second)
    assert max(sight.outputs) > 0


def test_an_engine_that_was_restarted_is_counted_anew() -> None:
    with DeploymentPoller(
        Scripted(Metrics(generation_tokens=1000), Metrics(generation_tokens=10)), 0.01, nothing
    ) as station:
        until(lambda: len(station.sight().outputs) > 3)
        sight = station.sight()
    assert sight.output_per_second == 0
    assert all(value == 0 for value in sight.outputs), "no negative rate, and no thousand tokens out of nothing"


def test_a_reading_that_hangs_never_delays_who_looks() -> None:
    held = threading.Event()

    class Hanging(Scripted):
        def read(self) -> Metrics:
            if self.read_times > 1:
                held.wait(30)
            return super().read()

    station = DeploymentPoller(Hanging(Metrics(generation_tokens=5)), 0.01, nothing)
    with station:
        until(lambda: station.settled)
        began = time.monotonic()
        sights = [station.sight() for _ in range(1000)]
        assert time.monotonic() - began < 5, "a thousand looks while the reader hangs"
        until(lambda: (station.sight().age_seconds or 0) > 0.2)
        assert state_of(station.sight(), silent_seconds=0.1) == "silent"
        assert sights[0].running is None
    held.set()


def test_an_endpoint_that_accepts_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "PATIENCE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with DeploymentPoller(DeploymentSource(lambda: LOOK, url, None), 0.05, nothing) as station:
            until(lambda: station.settled)
            sight = station.sight()
    assert sight.problem == f"{url}/metrics did not answer in time"
    assert state_of(sight, 1) == "silent"
    assert sight.output_per_second is None


def test_slots_say_what_the_metrics_of_llama_cpp_do_not() -> None:
    """As b11669 answered in the middle of a request of 318 + 900 tokens, beside a slot whose request had ended."""
    busy = {
        "n_ctx": 2048, "is_processing": True, "n_prompt_tokens": 556, "n_prompt_tokens_processed": 306,
        "n_prompt_tokens_cache": 12, "next_token": [{"n_decoded": 239}],
    }  # fmt: skip
    idle = {"n_ctx": 2048, "is_processing": False, "n_prompt_tokens": 621, "next_token": [{"n_decoded": 0}]}
    seen = read_slots([busy, idle, "nonsense"])
    assert (seen.held_tokens, seen.room_tokens, seen.decoded_tokens) == ((557, 621), 4096, 239)
    assert seen.usage == (557 + 621) / 4096
    assert read_slots([]).usage is None


def test_one_whose_metrics_cannot_be_reached_is_as_its_state_says() -> None:
    with DeploymentPoller(
        DeploymentSource(lambda: LOOK, "http://127.0.0.1:1", None, path=None), 0.05, nothing
    ) as station:
        until(lambda: station.settled)
        sight = station.sight()
    assert sight.problem is None
    assert state_of(sight, 60) == "ready"
    assert (sight.output_per_second, sight.running, sight.errors) == (None, None, None)


class PoweredHost:
    name = "box"

    def __init__(self, gpus: str | None, energies: list[str]) -> None:
        self.gpus, self.energies = gpus, energies

    def run(self, argv, *, timeout_seconds: float = 20) -> Result:
        if argv[0] == "nvidia-smi":
            return Result(0, self.gpus, "") if self.gpus is not None else Result(127, "", "")
        return Result(0, self.energies.pop(0), "") if self.energies else Result(1, "", "denied")


def test_watts_of_gpus_of_processors_or_of_nobody() -> None:
    assert power.PowerMeter(PoweredHost("301.5\n298.5\n", [])).read() == (600, "GPUs, nvidia-smi")
    assert power.gpu_watts(PoweredHost("301.5\n[N/A]\n", [])) is None, "a part is not the whole"
    meter = power.PowerMeter(PoweredHost(None, ["intel-rapl:0 900 1000\n", "intel-rapl:0 400 1000\n"]))
    assert meter.read() is None, "energy is counted: one reading is no power"
    watts = meter.read()
    assert watts is not None
    assert watts[1] == "processors, RAPL"
    assert power.mean_watts((0.0, {"a": (900, 1000)}), (2.0, {"a": (400, 1000)})) == 250e-6, "the counter began anew"
    assert power.PowerMeter(PoweredHost(None, [])).read() is None


def test_a_meter_outlives_what_fails_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh that is cut, a driver that is reset: W comes back when they do."""
    monkeypatch.setattr(power, "_EVERY_SECONDS", 0.01)

    class Shaky(PoweredHost):
        answers: Iterator[str | None] = iter([None, "300\n", "", None, "200\n"])

        def run(self, argv, *, timeout_seconds: float = 20) -> Result:
            if argv[0] == "nvidia-smi":
                self.gpus = next(self.answers, "100\n")
                if self.gpus is None:
                    raise HostError("box did not answer within 20 s")
            return super().run(argv)

    with power.PowerMeter(Shaky(None, [])) as meter:
        until(lambda: (meter.watts() or (0, ""))[0] == 100)


def test_a_machine_without_either_is_not_asked_for_ever() -> None:
    with power.PowerMeter(PoweredHost(None, [])) as meter:
        until(lambda: not meter._thread.is_alive())
