"""The generator against a server whose every token is known, and against one that misbehaves."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.scripted.schedule import Faults, faulty
from upright.facts.records.benchmark import Api
from upright.facts.records.spreads import spread_of
from upright.proof.benchmark.load import Arrivals, LoadTarget, Request, StreamTally, run
from upright.proof.benchmark.scheduled_server import Schedule, command
from upright.proof.benchmark.selftest import Repeated, scheduled, self_test

QUICK = Schedule(ttft_seconds=0.05, itl_seconds=0.005)


def load(url: str, requests: int, tokens: int, how: Arrivals, api: Api = "chat") -> StreamTally:
    target = LoadTarget(url, "scheduled", api)
    return run(target, Repeated(target, requests, tokens, "one two three"), how)[0]


@pytest.mark.parametrize("api", ["chat", "completions", "messages"])
def test_every_api_gives_the_same_figures(url: str, api: Api):
    tally = load(url, 12, 20, Arrivals(4), api)
    assert (tally.succeeded, dict(tally.errors)) == (12, {})
    assert list(tally.prompt) == [3] * 12
    assert list(tally.output) == [20] * 12
    assert tally.gaps.count == 12 * 19
    assert spread_of(tally.ttft).low > 0.045
    waited = sum(tally.ttft) + tally.gaps.spread().mean * tally.gaps.count
    assert waited > 0.95 * 12 * (0.05 + 19 * 0.005), "a busy machine brings tokens late, and some at once; none early"


@pytest.mark.timing
def test_times_are_those_of_the_schedule(url: str):
    tally = load(url, 12, 20, Arrivals(4))
    assert tally.gaps.spread().p50 == pytest.approx(0.005, rel=0.3)  # the mean is a busy machine's, too
    assert spread_of(tally.ttft).low == pytest.approx(0.05, abs=0.03)


FAULTS = {
    "500": "HTTP 500",
    "cut": "cut",
    "truncated": "no finish_reason",
    "done": "no finish_reason",
    "uncounted": "no usage",
    "error-event": "error event",
    "nonsense": "malformed",
    "stall": "stalled",
}


@pytest.mark.parametrize(("fault", "kind"), FAULTS.items())
def test_a_fault_is_counted_by_its_kind_and_never_as_success(fault: str, kind: str):
    with scheduled(faulty(QUICK, Faults(fault))) as url:
        tally = load(url, 30, 8, Arrivals(5, patience_seconds=1.5))
    assert dict(tally.errors) == {kind: 6}
    assert tally.succeeded == 24 == len(tally.ttft) == len(tally.output)
    assert tally.sent == 30
    assert tally.error_samples[kind]


def test_bytes_that_come_one_by_one_are_an_answer_all_the_same():
    with scheduled(faulty(QUICK, Faults("dribble", every=1))) as url:
        tally = load(url, 6, 4, Arrivals(3))
    assert (tally.succeeded, dict(tally.errors)) == (6, {})


def test_a_server_that_dies_ends_the_load_and_all_is_counted():
    with scheduled(faulty(QUICK, Faults("die", every=1000, after=10))) as url:
        target = LoadTarget(url, "scheduled")
        tally, flight = run(target, Repeated(target, 10_000, 8), Arrivals(4))
        assert flight.gone
        assert tally.succeeded + sum(tally.errors.values()) == tally.sent < 100
        assert tally.succeeded <= 10
        assert set(tally.errors) <= {"reset", "cut", "refused"}
        nobody, flight = run(target, Repeated(target, 100, 8), Arrivals(4))
    assert flight.gone
    assert (nobody.succeeded, set(nobody.errors)) == (0, {"refused"})


def test_a_time_box_cuts_what_does_not_end():
    with scheduled(command(Schedule(ttft_seconds=0.05, itl_seconds=0.2))) as url:
        target = LoadTarget(url, "scheduled")
        tally, _ = run(target, Repeated(target, 100, 50), Arrivals(2, seconds=0.3, grace_seconds=0.3))
    assert (tally.sent, tally.unfinished, tally.succeeded, dict(tally.errors)) == (2, 2, 0, {})


def test_open_arrival_keeps_its_rate_whatever_is_running():
    with scheduled(command(Schedule(ttft_seconds=0.5, itl_seconds=0.01))) as url:
        target = LoadTarget(url, "scheduled")
        tally, flight = run(target, Repeated(target, 60, 4), Arrivals(2, requests_per_second=60, seed=1))
    assert tally.succeeded == 60
    assert flight.in_flight_peak > 15
    assert 0.8 < tally.seconds < 60 / 2 * 0.53 / 2, "about 1.5 s; one after the other on two streams it would be 16 s"


class _Talks(Repeated):
    """Every request is followed by one more."""

    def following(self, request: Request, answer: str) -> Request | None:
        return None if request.session == "second" else replace(request, session="second")


def test_conversations_that_began_at_random_times_go_on_to_their_end():
    with scheduled(command(Schedule(ttft_seconds=0.3, itl_seconds=0.01))) as url:
        target = LoadTarget(url, "scheduled")
        tally, _ = run(target, _Talks(target, 6, 4), Arrivals(2, requests_per_second=200, seed=1))
    assert tally.succeeded == 12


@pytest.fixture
def few_files() -> Iterator[None]:
    """As in a shell with its usual limit, scaled down."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
def test_more_streams_than_a_shell_lets_a_process_open_at_first():
    """In the generator, and in the server of its self-test."""
    assert self_test(200).reached == 200


@pytest.mark.parametrize("how", ["Arrivals(200)", "Arrivals(2, requests_per_second=1000)"])
def test_a_machine_that_opens_no_more_is_not_a_server_that_refuses(how: str):
    program = f"""
import resource
from upright.proof.benchmark.load import Arrivals, LoadTarget, run
from upright.proof.benchmark.scheduled_server import Schedule, command
from upright.proof.benchmark.selftest import Repeated, scheduled
from upright.base.errors import HostError
with scheduled(command(Schedule(ttft_seconds=5))) as url:
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    target = LoadTarget(url, "scheduled")
    try:
        run(target, Repeated(target, 200, 4), {how})
    except HostError as error:
        print(error.message)
"""
    argv = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.startswith("this machine opens no more connections: "), done.stderr
    assert done.stdout.endswith(" are open, and ulimit -n is 100\n")
    assert done.stderr == ""
