"""A model that does not fit as the catalogue has it: itself in a GGUF type of fewer bits, before any other model."""

from __future__ import annotations

import pytest

from upright import Box, Goal
from upright.app.pages.plan_page import plan_page
from upright.base.terminal.safe_output import uncoloured
from upright.facts import catalog
from upright.facts.records.base import Figure
from upright.models.deriving.catalogue_models import record
from upright.planning.choosing.artifacts import artifact_choice, own_quant_plan
from upright.planning.requests.plan_request import PlanRequest, plan_request


def _box(gb: int) -> Box:
    memory = Figure(value=gb * 10**9, basis="assumed", source="given")
    return catalog.box_record("2x-rtx-5090").model_copy(update={"memory_bytes": memory})


def _native(name: str):
    row = catalog.model(name)
    model = record(row, row.artifacts[0])
    assert model is not None
    return model


@pytest.mark.parametrize(
    ("name", "gb", "offered"),
    [
        ("deepseek-v4-pro", 1100, "deepseek-v4-pro:Q4_K_M"),
        ("nemotron-3-ultra-550b-a55b", 512, "nemotron-3-ultra-550b-a55b:Q4_K_M"),
        ("nemotron-3-ultra-550b-a55b", 256, "nemotron-3-ultra-550b-a55b:Q3_K_M"),
    ],
)
def test_the_first_type_that_fits_is_offered(name, gb, offered):
    found = own_quant_plan(_box(gb), Goal(), _native(name))
    assert found is not None
    assert (found.model, found.fits, found.engine) == (offered, True, "llama.cpp")


@pytest.mark.parametrize(
    ("name", "gb"),
    [
        ("deepseek-v4-pro", 128),  # too small for any type
        ("deepseek-v4.1-flash", 1100),  # no recorded llama.cpp has its architecture
    ],
)
def test_nothing_is_offered_that_does_not_fit_or_is_not_served(name, gb):
    assert own_quant_plan(_box(gb), Goal(), _native(name)) is None


def test_what_is_offered_can_be_planned_by_its_name():
    found = own_quant_plan(_box(1100), Goal(), _native("deepseek-v4-pro"))
    assert artifact_choice(found.model, lambda text: pytest.fail(text)).model.format == "gguf"


def test_the_page_offers_it_before_other_models():
    chosen = artifact_choice("deepseek-v4-pro", lambda text: pytest.fail(text))
    planned = plan_request(PlanRequest(chosen, _box(1100)))
    page = plan_page(planned.plans, chosen, 80, planned.instead(), own=planned.of_own_type())
    assert page.index("deepseek-v4-pro:Q4_K_M with llama.cpp") < page.index("Other models that can:")
    assert max(map(len, uncoloured(page).splitlines())) <= 80


def test_a_page_does_not_promise_a_type_that_no_engine_serves():
    chosen = artifact_choice("deepseek-v4.1-flash", lambda text: pytest.fail(text))
    planned = plan_request(PlanRequest(chosen, _box(512)))
    page = " ".join(plan_page(planned.plans, chosen, 80, planned.instead(), own=planned.of_own_type()).split())
    assert "no engine that loads one is known to have DeepseekV41ForCausalLM" in page
    assert "MODEL:Q4_K_M" not in page
