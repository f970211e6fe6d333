"""A box that is so many of a GPU is a box to every verb that is asked about boxes."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize("name", ["1x-rtx-4090", "4x-rtx-5090", "1x-rtx-5090+2x-rtx-3090"])
def test_shown_explained_and_planned_by_one_name(upright, name):
    shown = upright("catalog", "show", "boxes", name, "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["id"] == name
    explained = upright("explain", name)
    assert explained.returncode == 0, explained.stderr
    assert f"upright plan MODEL --box {name}" in explained.stdout


def test_a_gpu_stays_a_gpu(upright):
    assert [each["kind"] for each in json.loads(upright("explain", "rtx-4090", "--json").stdout)] == ["gpu"]
