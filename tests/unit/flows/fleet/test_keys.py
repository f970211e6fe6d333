"""Three keys, never the same, never in a wrong place; and the middleware that keeps them apart."""

from __future__ import annotations

import runpy
import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from upright.base.errors import LaunchError, UsageError
from upright.facts.records.fleet import BoxState, Fleet, FleetBox, FleetState, Router
from upright.flows.fleet.boxes import admitted_urls, same_start, url_of
from upright.flows.fleet.directory import FleetDir, known_fleets
from upright.flows.fleet.named_fleet import file_of
from upright.flows.fleet.router_api import PAYLOAD, RouterFiles
from upright.planning.rendering.router import router_recipe


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    return tmp_path


def a_fleet(**more: object) -> Fleet:
    boxes = (FleetBox(name="a", port=8001), FleetBox(name="b", at="ssh:b", address="10.0.0.2"))
    return Fleet.model_validate({"name": "f", "model": "m", "boxes": boxes, **more})


def test_keys_are_made_once_and_for_their_owner_alone(home: Path):
    directory = FleetDir("f")
    directory.create(a_fleet())
    first = directory.keys()
    assert len({first.client, first.worker, first.admin}) == 3
    assert directory.keys() == first
    for name in ("client", "worker", "admin"):
        assert stat.S_IMODE((home / f"fleets/f/{name}.key").stat().st_mode) == 0o600
    assert [each.name for each in known_fleets()] == ["f"]


def test_a_clients_key_may_be_named(home: Path, monkeypatch: pytest.MonkeyPatch):
    directory = FleetDir("f")
    directory.create(a_fleet())
    monkeypatch.setenv("KIMI_KEY", "sk-my-own-key")
    assert directory.keys("env:KIMI_KEY").client == "sk-my-own-key"
    (home / "k").write_text("sk-in-a-file\n")
    assert directory.keys(f"file:{home / 'k'}").client == "sk-in-a-file"
    for reference, says in (
        ("env:NO_SUCH", "the variable NO_SUCH is empty"),
        (f"file:{home / 'none'}", "cannot be read"),
    ):
        with pytest.raises(UsageError, match=says):
            directory.keys(reference)
    monkeypatch.setenv("KIMI_KEY", "two words")
    with pytest.raises(UsageError, match="what KIMI_KEY holds is no key"):
        directory.keys("env:KIMI_KEY")
    monkeypatch.setenv("KIMI_KEY", directory.keys().worker)
    with pytest.raises(UsageError, match="two keys of f are the same"):
        directory.keys("env:KIMI_KEY")


def test_the_file_that_a_fleet_came_from(home: Path, monkeypatch: pytest.MonkeyPatch):
    file, directory = home / "published/fleet.yaml", FleetDir("f")
    directory.create(a_fleet())
    assert file_of(a_fleet()) == []
    file.parent.mkdir()
    file.touch()
    monkeypatch.chdir(home)
    directory.create(a_fleet(), Path("published/fleet.yaml"))
    assert file_of(a_fleet()) == ["published/fleet.yaml"], "as it is typed here"
    monkeypatch.chdir(home / "fleets")
    assert file_of(a_fleet()) == [str(file)]
    file.unlink()
    assert file_of(a_fleet()) == []


def test_one_command_at_a_time():
    directory = FleetDir("f")
    directory.create(a_fleet())
    with directory.at_work():
        assert directory.somebody_at_work()
        with pytest.raises(LaunchError, match="another command is at work on f"), FleetDir("f").at_work():
            pass
    assert not directory.somebody_at_work()


def test_a_command_waits_for_a_watcher_that_brings_the_router_back():
    directory, order = FleetDir("f"), []
    directory.create(a_fleet())

    def end_it() -> None:
        with FleetDir("f").at_work():
            order.append("down")

    with directory.watcher_at_work() as ours:
        assert ours
        assert not directory.somebody_at_work()
        with FleetDir("f").watcher_at_work() as another:
            assert not another
        command = threading.Thread(target=end_it)
        command.start()
        command.join(1)
        order.append("router back")
    command.join(60)
    assert order == ["router back", "down"]
    with directory.at_work(), FleetDir("f").watcher_at_work() as ours:
        assert not ours


def test_the_middleware_holds_the_keys_where_the_code_reads_them():
    payload = runpy.run_path(str(PAYLOAD))
    code = payload["guard"]("client-key", "worker-key")
    assert code[:4] == b"\0asm"
    assert code.count(b"Bearer client-key") == code.count(b"Bearer worker-key") == 1
    assert b"UPRIGHT-" not in code
    with pytest.raises(SystemExit, match="more than 249 characters"):
        payload["guard"]("x" * 250, "worker-key")


def test_the_routers_folder(home: Path):
    fleet, directory = a_fleet(), FleetDir("f")
    directory.create(fleet)
    files = RouterFiles(fleet, directory)
    files.write(directory.keys())
    files.list_boxes({"a": "http://127.0.0.1:8001"})
    folder = home / "fleets/f/router"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    assert "sk-upright" not in (folder / "workers.json").read_text()
    with pytest.raises(LaunchError, match="smg is not on this machine: no-such-smg"):
        files.python("no-such-smg")


def test_where_the_router_finds_a_box():
    def found(machine: str | None, host: str, router: str = "here") -> str:
        deployment = SimpleNamespace(base_url="http://127.0.0.1:41000", machine=machine)
        recipe = SimpleNamespace(host=host, port=8001, base_url=f"http://{host}:8001")
        return url_of(a_fleet(boxes=(FleetBox(name="a", at=router),), router=Router(at=router)), deployment, recipe)

    assert found(None, "127.0.0.1") == found(None, "0.0.0.0") == "http://127.0.0.1:8001"
    assert found(None, "10.0.0.2") == found("b", "10.0.0.2") == "http://10.0.0.2:8001"
    assert found("c", "127.0.0.1") == found("c", "localhost") == "http://127.0.0.1:41000", "our end of the tunnel"
    assert found("b", "127.0.0.1", "ssh:b") == "http://127.0.0.1:8001", "beside the router"
    assert admitted_urls(a_fleet(), FleetState(name="f", boxes=(BoxState(name="a"),))) == {}


def test_the_same_start_whatever_it_was_made_from():
    def recipe(**more: object):
        return router_recipe(
            a_fleet(**more), folder="/r", program="python3", served_name="m", context_tokens=1024
        )  # fmt: skip

    one = recipe()
    assert same_start(one, one.model_copy(update={"made_from": ("box:0",), "notes": ()}))
    assert not same_start(one, recipe(router=Router(port=9009)))
    assert not same_start(one, one.model_copy(update={"program": "python3.12"}))
