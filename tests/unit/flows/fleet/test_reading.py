"""fleet.yaml as people write it, and what they are told when it is wrong."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from upright.app.cli.fleet import command
from upright.base.errors import RecordError, UsageError
from upright.facts.records.base import from_json
from upright.facts.records.fleet import Fleet
from upright.flows.fleet import read_fleet

GOOD = """record: fleet
schema: 1
name: kimi
model: moonshotai/Kimi-K2.6
goal: {context_tokens: 65536, users: 8}
boxes:
  - name: alpha
    at: ssh:alpha
  - name: beta
    at: ssh:root@10.0.0.12
    address: 10.0.0.12
    port: 8001
router: {port: 9000, policy: prefix_hash}
client_key: env:KIMI_KEY
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(text)
    return path


def test_the_example_of_the_help_text_is_a_fleet(tmp_path: Path):
    shown = re.search(r"record: fleet\n.*client_key: .*\n", command.help or "", re.DOTALL)
    assert shown
    fleet = read_fleet(written(tmp_path, inspect.cleandoc(shown.group())))
    assert [box.name for box in fleet.boxes] == ["alpha", "beta"]


def test_a_fleet_is_read_and_is_a_record(tmp_path: Path):
    fleet = read_fleet(written(tmp_path, GOOD))
    assert [(box.name, box.machine, box.address, box.port) for box in fleet.boxes] == [
        ("alpha", "alpha", None, 8000),
        ("beta", "root@10.0.0.12", "10.0.0.12", 8001),
    ]
    assert fleet.source(fleet.boxes[0]) == "moonshotai/Kimi-K2.6"
    assert fleet.router.policy == "prefix_hash"
    assert from_json(Fleet, fleet.to_json()) == fleet


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    port: 8001", "    prot: 8001", " line 12: boxes.beta.prot: there is no such field"),
        ("at: ssh:alpha", "at: alpha", " line 8: boxes.alpha.at: 'alpha' is no machine: write here, or ssh:HOST"),
        ("at: ssh:alpha", "at: ssh:-oProxyCommand=x", " line 8: boxes.alpha.at: 'ssh:-oProxyCommand=x' is no machine"),
        ("address: 10.0.0.12", "address: beta", " line 11: boxes.beta.address: 'beta' is no address"),
        ("port: 8001", "port: 80010", " line 12: boxes.beta.port: Input should be less than or equal to 65535"),
        ("client_key: env:KIMI_KEY", "client_key: sk-secret", " line 14: client_key: a key is named, never written"),
        ("policy: prefix_hash", "policy: fastest", " line 13: router.policy: Input should be 'auto', "),
        ("client_key: env:KIMI_KEY", "prove_to: smoek", " line 14: prove_to: no rung named smoek"),
        ("  - name: beta", "  - name: alpha", ": 2 boxes are named alpha"),
        ("model: moonshotai/Kimi-K2.6\n", "", ": box alpha has no model: name one for it, or for the fleet"),
        ("router: {", "router: {at: ssh:front, ", ": box alpha has no address, and the router on ssh:front could not"),
        ("record: fleet", "record: fleets", " is no fleet: its first lines are not `record: fleet`"),
        ("schema: 1", "schema: 7", f" has fleet schema 7; this version reads 1 to {Fleet.schema_version}"),
        ("boxes:", "boxes: [", " line 7 is not YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_name(tmp_path: Path, old: str, new: str, says: str):
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(RecordError) as caught:
        read_fleet(path)
    assert f"{path}{says}" in caught.value.message
    assert "sk-secret" not in caught.value.message


def test_boxes_of_one_machine_want_ports_of_their_own(tmp_path: Path):
    text = "record: fleet\nschema: 1\nname: x\nmodel: m\nboxes: [{name: a}, {name: b}]\n"
    with pytest.raises(RecordError, match="a and b both want port 8000 of here"):
        read_fleet(written(tmp_path, text))
    with pytest.raises(RecordError, match="the router and b both want port 9000 of here"):
        read_fleet(written(tmp_path, text.replace("{name: b}", "{name: b, port: 9000}")))
    with pytest.raises(RecordError, match="the router's metrics and b both want port 29000 of here"):
        read_fleet(written(tmp_path, text.replace("{name: b}", "{name: b, port: 29000}")))
    text = text.replace("{name: b}", "{name: b, port: 8001}")
    with pytest.raises(RecordError, match="the router's metrics and the router both want port 29000 of here"):
        read_fleet(written(tmp_path, f"{text}router: {{port: 29000}}\n"))


def test_no_file(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_fleet(tmp_path / "none.yaml")
