"""A site in a browser -> seconds of a first and a second visit, milliseconds of a warm plan, held against a plain loop.

A loop of the same browser in the same minute is as slow as the machine is busy: the ratio says what the plan costs.
"""

from __future__ import annotations

from pathlib import Path

from tests.browser import Chromium, Line, served
from tests.site.budgets import WARM

LINE = 20e6 / 8
"""Bytes a second: 20 Mbit/s."""
ROUNDS = 12
_CONTEXTS = (8192, 16384, 32768, 98304, 131072, 196608)
_LOOP = """(() => {
  const began = performance.now();
  let sum = 0;
  for (let index = 1; index < 6e7; index += 1) sum = (sum * 31 + index) % 1000003;
  return [performance.now() - began, sum][0];
})()"""
_PLAN = """(async () => {{
  const began = performance.now();
  await window.upright.ask({{ask: "plan", model: "{model}", box: "{box}", goal: {{context_tokens: {context}}}}});
  return performance.now() - began;
}})()"""


def visited(browser: Chromium, site: Path) -> dict[str, float]:
    """The least of each: what others on the machine take is no cost of the page."""
    page = browser.page(private=True)
    with served(site, line=Line(LINE)) as address:
        page.go(address)
        cold = page.ready()
        page.settled()
        page.until("navigator.serviceWorker.controller !== null")
        page.go("about:blank")
        page.go(address)
        again = page.ready()
        page.drawn()
        loops, plans = list[float](), list[float]()
        for turn in range(ROUNDS):
            loops.append(page.run(_LOOP))
            plans.append(page.run(_PLAN.format(**WARM, context=_CONTEXTS[turn % len(_CONTEXTS)])))
    return {
        "cold_seconds": round(cold, 1),
        "second_visit_seconds": round(again, 1),
        "plan_milliseconds": round(min(plans)),
        "plan_loops": round(min(plans) / min(loops), 2),
    }
