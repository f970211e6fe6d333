"""A page -> every way out of it tried, from the page and from a worker: another server must see nothing."""

from __future__ import annotations

import json

from tests.browser import Page, served
from tests.conftest import ROOT

TRIES = """
const other = {other};
const tries = [
  fetch(other, {{mode: "no-cors"}}),
  new Promise((resolve, reject) => {{
    Object.assign(new WebSocket(other.replace("http", "ws")), {{onopen: resolve, onerror: reject}});
  }}),
  import(other + "conf.js"),
];
Promise.allSettled(tries).then((all) => {tell}(all.map((one) => one.status).join(" ")));
"""


def assert_no_other_origin(page: Page) -> None:
    """Neither from the page nor from a worker made as the planner's is: one from a blob has the page's policy."""
    reached: list[str] = []
    with served(ROOT / "docs", reached) as other:
        here = TRIES.format(other=json.dumps(other), tell="resolve")
        assert page.run(f"new Promise((resolve) => {{ {here} }})") == "rejected rejected rejected"
        there = TRIES.format(other=json.dumps(other), tell="postMessage")
        worker = f"""new Promise((resolve) => {{
            const address = URL.createObjectURL(new Blob([{json.dumps(there)}], {{type: "text/javascript"}}));
            const worker = new Worker(address, {{type: "module"}});
            worker.onmessage = ({{data}}) => resolve(data);
        }})"""
        assert page.run(worker) == "rejected rejected rejected"
        page.run(f"document.body.append(Object.assign(new Image(), {{src: {json.dumps(other)}}}))")
        page.run("document.body.lastChild.decode().catch(() => document.body.lastChild.remove())")
    assert reached == []
