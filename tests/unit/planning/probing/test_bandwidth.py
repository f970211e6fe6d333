"""A measurement that measures, and says how."""

from upright.base.host import LocalHost, Result
from upright.facts.records.base import Figure, unknown
from upright.planning.probing.bandwidth import measure


def test_memory_is_read_and_the_figure_says_how():
    figure = measure(LocalHost(), Figure(value=8 * 128 * 1024**2, basis="probed", source="test"))
    assert figure.basis == "measured"
    assert 10**8 < (figure.value or 0) < 10**13
    assert (figure.source or "").startswith("memchr over 128 MiB by ")


def test_too_little_memory_is_not_measured():
    assert "only 100 MiB" in (measure(LocalHost(), Figure(value=100 * 1024**2, basis="probed")).source or "")
    assert measure(LocalHost(), unknown("no")).value is None


def test_a_machine_without_python_says_so():
    class Bare(LocalHost):
        def run(self, argv, *, timeout_seconds=20):
            return Result(127, "", "sh: python3: not found")

    figure = measure(Bare(), Figure(value=10**10, basis="probed"))
    assert figure.value is None
    assert figure.source == "the measurement gave no result: sh: python3: not found"
