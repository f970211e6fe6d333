"""Guessing ahead on a real vLLM: n-grams and an EAGLE-3 head trained for the tiny model, in one trial of few starts.

Nothing damages its answers on a CPU: what it samples is exact, and its synthetic acceptance wants a GPU. A draft that
damages is llama.cpp's, in tests/engines/test_speculation.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TINY_MODEL, Upright
from tests.ports import free_port
from tests.vllm.conftest import Standing, answer

HEAD = TINY_MODEL.with_name("eagle3")
CELLS = ("--cells", "64x1,64x4", "--output-tokens", "48", "--repeats", "2")


@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("quiet")
@pytest.mark.slow
def test_ngram_and_eagle3_are_judged_by_cell(standing: Standing) -> None:
    """Judged and not kept: the deployment is everybody's here."""
    words = ("--only", "smoke", "--speculate", f"eagle3={HEAD}", "--speculate", "ngram", *CELLS)
    tried = standing.upright("prove", standing.name, *words, "--no-keep", "--json", timeout=1200)
    record = answer(tried)
    head, ngram = record["tried"]
    for each in (head, ngram):
        assert each["outcome"] == "stepped back", each["reason"]
        assert each["answers"] > 30
        assert each["damage"] == []
        assert len(each["cells"]) == 2
        assert any(cell["verdict"] != "not measurable" for cell in each["cells"]), each["cells"]
        for cell in each["cells"]:
            if cell["verdict"] == "not measurable":  # a busy machine cuts cells by the time box, and says so
                assert cell["reason"]
                continue
            output = cell["output"]
            wins, loses = output["low"] > 1, output["high"] < 1
            unsure = "no difference" if output["low"] >= 1 / 1.1 and output["high"] <= 1.1 else "cannot tell"
            assert cell["verdict"] == ("wins" if wins else "loses" if loses else unsure), cell
    assert head["drafted_tokens"] > 200
    assert 0.05 < head["acceptance"] < 1
    first, second, third = head["acceptance_at"]
    assert first >= second >= third
    assert [cell["published"]["rows"] for cell in head["cells"]] == [["m023", "m001"], ["m025", "m003"]]
    assert head["pool_tokens"] / record["base_pool_tokens"] == pytest.approx(4 / 5, abs=0.01), "one layer beside four"
    assert ngram["pool_tokens"] == record["base_pool_tokens"]
    assert record["runs"] == record["base"]
    assert standing.json("ps")[0]["state"] == "ready"


@pytest.mark.slow
def test_a_candidate_that_cannot_start_is_taken_back(vllm_box: Upright, tiny_checkpoint: Path, tmp_path: Path) -> None:
    """A head that says deepseek_v3 is taken for a layer of multi-token prediction, and refused at the start."""
    folder = tmp_path / "head"
    folder.mkdir()
    for file in HEAD.iterdir():
        text = file.read_bytes()
        (folder / file.name).write_bytes(text.replace(b'"deepseek_v2"', b'"deepseek_v3"'))
    answer(vllm_box("up", tiny_checkpoint, "--context", "1k", "--users", "4", "--port", str(free_port()), "--json"))
    words = ("--speculate", f"eagle3={folder}", *CELLS)
    record = answer(vllm_box("prove", "--only", "smoke", *words, "--json", timeout=900))
    (only,) = record["tried"]
    assert only["outcome"] == "fell"
    assert "does not start" in only["reason"]
    assert answer(vllm_box("ps", "--json"))[0]["state"] == "ready"
