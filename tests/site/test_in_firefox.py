"""The site in a real Firefox: it loads, answers as the command line does, reaches nobody else and needs no network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.browser import served
from tests.conftest import Upright
from tests.firefox import firefox
from tests.site.other_origins import assert_no_other_origin

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
MODEL, BOX = "gpt-oss-120b", "1x-rtx-pro-6000-workstation"


def test_firefox_plans_reaches_nobody_else_and_needs_no_network(site: Path, upright: Upright, tmp_path: Path):
    question = {"ask": "plan", "model": MODEL, "box": BOX}
    with firefox(tmp_path) as browser:
        page = browser.page()
        with served(site) as address:
            page.go(address)
            page.ready()
            page.settled()
            record = json.loads(upright("plan", MODEL, "--box", BOX, "--json").stdout)
            assert page.ask(question)["record"] == record
            assert_no_other_origin(page)
            page.until("navigator.serviceWorker.controller !== null")
        page.go("about:blank")
        page.go(f"{address}#view=plan&model={MODEL}&box={BOX}")
        page.ready()
        page.until(f"document.querySelector('h1')?.textContent.includes('{MODEL}')")
        assert page.ask(question)["record"] == record
