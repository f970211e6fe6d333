"""Side by side: what a step buys, what it costs by one's own prices, when it pays off, and a picture of it."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import upright
from upright.app.pages.compare_page import compare_page
from upright.app.pages.compare_picture import compare_picture
from upright.planning.recommending.comparison import Prices, break_even, costs


def test_a_box_breaks_even_where_it_has_saved_its_price():
    """10,000 for the box, 5 a million from the API, 1 a million for energy: 2,500 million tokens."""
    tokens, hours = break_even(100.0, 1.0, Prices(purchase=10_000, api_million=5.0))
    assert tokens == pytest.approx(2_500e6)
    assert hours == pytest.approx(2_500e6 / 100 / 3600)
    paid = 10_000 + (tokens or 0) / 1e6 * 1.0
    assert paid == pytest.approx((tokens or 0) / 1e6 * 5.0)


def test_a_box_whose_energy_costs_more_never_breaks_even():
    assert break_even(10.0, 5.0, Prices(purchase=10_000, api_million=5.0)) == (None, None)
    assert break_even(10.0, 0.0, Prices(purchase=10_000)) == (None, None)


def test_energy_and_rent_of_a_million_tokens():
    known = costs(100.0, 3600.0, Prices(rent_hour=18.0, kilowatt_hour=0.5))
    assert known is not None
    seconds = 1e6 / 100
    assert known.energy_million == pytest.approx(3.6 * seconds / 3600 * 0.5)
    assert known.rent_million == pytest.approx(18.0 * seconds / 3600)
    assert known.tokens_per_joule == pytest.approx(100 / 3600)


def test_without_prices_there_are_no_costs_and_without_a_speed_none_of_a_token():
    assert costs(100.0, 3600.0, Prices(watts=100)) is None
    unknown = costs(None, 3600.0, Prices(purchase=1000.0, kilowatt_hour=0.3, api_million=2.0))
    assert unknown is not None
    assert unknown.energy_million is None
    assert unknown.purchase_per_token_per_second is None
    assert unknown.break_even_hours is None


@pytest.mark.parametrize("rate", [None, 100.0])
@pytest.mark.parametrize("kilowatt_hour", [None, 0.0, 0.3])
@pytest.mark.parametrize("serves", [True, False])
def test_energy_that_is_not_known_is_not_free(rate, kilowatt_hour, serves):
    known = costs(rate, 500.0, Prices(purchase=1000.0, kilowatt_hour=kilowatt_hour, api_million=2.0), serves=serves)
    assert known is not None
    assert (known.break_even_tokens is not None) == (serves and not (rate is None and kilowatt_hour))


def test_a_page_says_why_nothing_breaks_even():
    boxes = ["hgx-h200", "8x-mi355x", "1x-rtx-5090"]
    priced = Prices(purchase=1000.0, kilowatt_hour=0.3, api_million=2.0)
    compared = upright.compare(["kimi-k2.6"], boxes, prices=[priced] * 3)
    line = next(line for line in compare_page(compared, 120).splitlines() if line.startswith("breaks even at"))
    cells = [text.strip() for text in line.split("  ") if text.strip()]
    assert cells[1:] == ["never: its energy costs more", "not known", "-"]
    free = upright.compare(["kimi-k2.6"], boxes[:1], prices=[Prices(purchase=1000.0, api_million=0.0)])
    assert "never: the API costs nothing" in compare_page(free, 120)


def test_a_step_changes_one_thing():
    compared = upright.compare(
        ["gpt-oss-120b", "gpt-oss-20b"], ["dgx-spark", "hgx-h200"], engines=["vllm", "llama.cpp"]
    )
    engine, box, _, model, *_ = compared.steps
    assert engine.startswith("gpt-oss-120b-GGUF:MXFP4_MOE with llama.cpp on dgx-spark: ")
    assert box.startswith("hgx-h200, gpt-oss-120b against dgx-spark: ")
    assert model.startswith("gpt-oss-20b with vllm on dgx-spark against gpt-oss-120b: ")


def test_a_box_that_leaves_its_ram_open_is_not_plainly_too_small():
    (column,) = upright.compare(["kimi-k2.6"], ["1x-rtx-5090"]).columns
    assert column.why_not is not None
    assert column.why_not.endswith("--ram")


@pytest.fixture(scope="module")
def three_boxes():
    boxes = ("2x-rtx-pro-6000-server", "8x-rtx-pro-6000-server", "hgx-b200")
    return upright.compare(["kimi-k2.6"], boxes, prices=[Prices(purchase=40_000.0, api_million=2.5)] * 3)


def test_a_column_says_what_its_plan_says(three_boxes):
    alone = upright.plan("kimi-k2.6", "8x-rtx-pro-6000-server")[0]
    column = three_boxes.columns[1]
    assert [each.fits for each in three_boxes.columns] == [False, True, True]
    assert column.largest_context_tokens == alone.largest_context_tokens
    assert alone.speed is not None
    assert column.decode == alone.speed.decode
    assert three_boxes.columns[0].why_not


def test_each_step_says_what_it_buys(three_boxes):
    first, second = three_boxes.steps
    assert first.endswith("fits, which the one before does not")
    assert "x the context" in second
    assert "x the users" in second


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_the_page(three_boxes, width):
    page = compare_page(three_boxes, width)
    assert max(map(len, page.splitlines())) <= width
    assert "breaks even at" in page


def test_the_picture_is_one_self_contained_svg(three_boxes):
    picture = compare_picture(three_boxes)
    root = ET.fromstring(picture)
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert set(names) == {"svg", "title", "rect", "text", "line"}
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
    right = float(root.attrib["width"])
    for element in root.iter():
        if "width" in element.attrib and "x" in element.attrib:
            assert float(element.attrib["x"]) + float(element.attrib["width"]) <= right


def test_engines_and_models_are_columns_too():
    both = upright.compare(["gpt-oss-20b"], ["1x-rtx-5090"], engines=["vllm", "llama.cpp"])
    assert [column.engine for column in both.columns] == ["vllm", "llama.cpp"]
    models = upright.compare(["gpt-oss-20b", "qwen3-32b"], ["1x-rtx-5090"])
    assert [column.model.partition(":")[0].partition("-GGUF")[0].lower()[:8] for column in models.columns] == [
        "gpt-oss-",
        "qwen3-32",
    ]
