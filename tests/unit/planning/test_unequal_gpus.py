"""Boxes with GPUs of several kinds: how they are named, split, and that a card more never makes the best plan worse."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upright import plan
from upright.base.errors import UprightError
from upright.facts import catalog
from upright.facts.records.plan import Goal, Plan
from upright.planning.placement.unequal_gpus import fastest_kinds, in_ratio
from upright.planning.requests.plan_arguments import NamedBox, box_named

CARDS = ("rtx-5090", "rtx-4090", "rtx-3090", "rtx-4060-ti", "rtx-3060", "tesla-p40")
MODELS = ("qwen3-32b:Q4_K_M", "gpt-oss-20b", "gpt-oss-120b", "qwen3.6-27b:Q8_0")
_tiers = st.lists(st.sampled_from(CARDS), min_size=1, max_size=4)


def _name(cards: list[str]) -> str:
    return "+".join(f"{cards.count(card)}x-{card}" for card in dict.fromkeys(cards))


def _best(cards: list[str], model: str, engine: str = "llama.cpp") -> Plan:
    box = box_named(NamedBox(_name(cards), 64, 80))
    return plan(model, box, Goal(engine=engine, context_tokens=8192))[0]


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("1x-rtx-5090+2x-rtx-3090", "1x-rtx-5090+2x-rtx-3090"),
        ("2x RTX 3090 + RTX 5090", "1x-rtx-5090+2x-rtx-3090"),
        ("1x-rtx-4060ti+2x-rtx-3090", "2x-rtx-3090+1x-rtx-4060-ti"),
        ("1x-rtx-3090+1x-3090", "2x-rtx-3090"),
        ("RTX 3090 + 2x RTX 3060 12GB", "1x-rtx-3090+2x-rtx-3060"),
    ],
)
def test_the_fastest_is_first_as_cuda_counts(name: str, canonical: str) -> None:
    assert catalog.box_record(name).name == canonical


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("1x-rtx-5091+2x-rtx-3090", "1x-rtx-5091 is no number of GPUs"),
        ("2x-rtx-3090+nonsense", "nonsense is no number of GPUs"),
        ("2x-rtx-3090++1x-rtx-3060", "nothing is no number of GPUs"),
        ("1x-rtx-5090+1x-rx-7900-xtx", "one vendor"),
        ("1x-strix-halo+1x-rtx-3090", "shares the machine's memory"),
        ("9x-rtx-3090+9x-rtx-4090", "18 GPUs"),
        ("1x-rtx-3090+" + "z" * 10_000, "z…"),
    ],
)
def test_the_wrong_piece_is_told(name: str, told: str) -> None:
    with pytest.raises(UprightError) as error:
        catalog.find_box(name)
    assert told in str(error.value)
    assert len(str(error.value)) < 120


@pytest.mark.parametrize("name", ["ssh:me+you@host", "a+b.json", "+", "c++"])
def test_a_sign_alone_makes_no_box(name: str) -> None:
    assert catalog.find_box(name) is None


@given(st.integers(0, 200), st.lists(st.integers(-5, 2**36), min_size=1, max_size=16))
def test_a_ratio_gives_every_layer_away_once(layers: int, rooms: list[int]) -> None:
    counts = in_ratio(layers, rooms)
    assert sum(counts) == layers
    assert len(counts) == len(rooms)
    assert min(counts) >= (1 if layers > len(rooms) and any(room > 0 for room in rooms) else 0)


def test_slow_kinds_are_shown_last() -> None:
    box = catalog.box_record("2x-rtx-4060-ti+1x-rtx-3090+1x-rtx-5090")
    assert list(fastest_kinds(box)) == [(0,), (0, 1), (0, 1, 2, 3)]


def test_what_fits_on_the_fast_card_leaves_the_slow_ones_idle() -> None:
    alone, beside = _best(["rtx-3090"], "gpt-oss-20b"), _best(["rtx-3090", "rtx-3060", "rtx-3060"], "gpt-oss-20b")
    assert beside.gpus == (0,)
    assert beside.speed == alone.speed
    assert any(note.code == "idle-gpus" for note in beside.notes)


def test_what_is_left_over_goes_to_the_slow_cards() -> None:
    found = _best(["rtx-3090", "rtx-3060", "rtx-3060"], "qwen3-32b:Q8_0")
    counts = [place.layers for place in found.layer_places]
    assert sum(counts) == 64
    assert found.gpus == (0, 1, 2)
    # The fast card is full: another layer would not go there.
    layer = found.used_bytes("gpu0") / counts[0]
    assert found.headroom_bytes("gpu0") < 3 * layer


def test_a_step_takes_the_sum_of_its_cards() -> None:
    """Bytes over bandwidth of each card, one after the other."""
    found = _best(["rtx-3090", "rtx-3060", "rtx-3060"], "qwen3-32b:Q8_0")
    assert found.speed is not None
    rates = {"gpu0": 936e9, "gpu1": 360e9, "gpu2": 360e9}
    read = {device: sum(line.bytes for line in found.ledger if (line.device, line.term) == (device, "weights"))
            for device in rates}  # fmt: skip
    seconds = sum(read[device] / rates[device] for device in rates) / 0.87
    (weights,) = (term for term in found.speed.terms if (term.step, term.term) == ("decode", "weights"))
    assert weights.milliseconds == pytest.approx(1000 * seconds, rel=0.02)
    assert "one GPU after the other" in weights.why


@settings(max_examples=12, deadline=None, derandomize=True)
@given(_tiers, st.sampled_from(CARDS), st.sampled_from(MODELS))
def test_a_card_more_never_makes_the_best_plan_worse(cards: list[str], more: str, model: str) -> None:
    _no_worse(cards, more, model)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(_tiers, st.sampled_from(CARDS), st.sampled_from(MODELS))
def test_a_card_more_never_makes_the_best_plan_worse_at_length(cards: list[str], more: str, model: str) -> None:
    _no_worse(cards, more, model)


def _no_worse(cards: list[str], more: str, model: str) -> None:
    before, after = _best(cards, model), _best([*cards, more], model)
    if not before.fits:
        return
    assert after.fits
    if before.model != after.model or before.speed is None:
        return
    assert after.speed is not None
    assert after.speed.decode.best is not None
    assert before.speed.decode.best is not None
    # An even split of equal cards and one by memory differ by a layer; a fixed scratch lies on each card.
    assert after.speed.decode.best >= 0.97 * before.speed.decode.best, (before.speed.decode, after.speed.decode)


def test_every_pair_of_one_architecture_can_be_stages() -> None:
    found = plan("gpt-oss-20b", box="1x-rtx-3090+1x-rtx-3060", goal=Goal(engine="vllm", context_tokens=8192))
    assert all(each.parallel.tensor == 1 for each in found)


def test_ranks_of_two_architectures_are_refused_with_the_reason() -> None:
    found = plan("qwen3-32b", box="1x-rtx-5090+2x-rtx-3090", goal=Goal(engine="vllm", context_tokens=8192))[0]
    (idle,) = (note for note in found.notes if note.code == "idle-gpus")
    assert "compute capability" in idle.message


@pytest.mark.parametrize(("order", "basis"), [("FASTEST_FIRST", "catalog"), ("PCI_BUS_ID", "probed")])
def test_the_recipe_counts_gpus_as_the_plan_does(order: str, basis: str) -> None:
    from upright.engines.gpu_settings import shown_gpus

    box = catalog.box_record("1x-rtx-3090+2x-rtx-3060").model_copy(update={"basis": basis})
    variables = {
        each.name: each.value for each in shown_gpus(_best(["rtx-3090", "rtx-3060", "rtx-3060"], "gpt-oss-20b"), box)
    }
    assert variables == {"CUDA_DEVICE_ORDER": order, "CUDA_VISIBLE_DEVICES": "0"}


def test_links_follow_the_cards_that_are_shown() -> None:
    box = catalog.box_record("1x-rtx-5090+2x-rtx-3090")
    pairs = itertools.combinations(range(3), 2)
    from upright.facts.records.box import Link

    wired = box.model_copy(
        update={"links": tuple(Link(a=a, b=b, path="NV4" if (a, b) == (1, 2) else "SYS") for a, b in pairs)}
    )
    (link,) = wired.with_only((1, 2)).links
    assert (link.a, link.b, link.path) == (0, 1, "NV4")
