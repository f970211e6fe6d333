"""SECURITY.md promises what a test shows: its table is made from the tests, and a test without a promise is refused."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from tests.conftest import ROOT

ATTACKER = '"""A server: what it sends.\n\nMore about it.\n"""\nimport pytest\n'


@pytest.fixture(scope="module")
def security() -> ModuleType:
    spec = importlib.util.spec_from_file_location("documents_security", ROOT / "scripts/documents/security.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_promises_come_from_functions_classes_and_the_module(security: ModuleType):
    section = security.section(
        "test_attacker_server.py",
        f"""{ATTACKER}
NOT_PROMISED = ("that it answers",)
pytestmark = [pytest.mark.timeout(9), pytest.mark.promise("of the module")]

@pytest.mark.promise("of the class | quoted")
class TestLines:
    @pytest.mark.promise("of the function")
    def test_endless(self): ...

@pytest.mark.parametrize("a", [1])
def test_alone(a): ...
""",
    )
    assert section.startswith("### A server\n\nHas: what it sends.\n")
    assert "| of the module | `TestLines::test_endless`, `test_alone` |" in section
    assert r"| of the class \| quoted | `TestLines::test_endless` |" in section
    assert "| of the function | `TestLines::test_endless` |" in section
    assert "Not promised:\n\n- that it answers\n" in section


def test_every_attacker_is_a_row_with_what_holds_and_where_it_is_tried(security: ModuleType):
    text = (
        f'{ATTACKER}@pytest.mark.promise("one | two")\ndef test_a(): ...\n@pytest.mark.promise("b")\ndef test_b(): ...'
    )
    row = security.overview("test_attacker_server.py", text)
    assert row == r"| [A server](#a-server) | what it sends | one \| two; b | `test_attacker_server.py` |"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{ATTACKER}def test_bare(): ...", "test_bare shows no promise"),
        (ATTACKER, "no test"),
        ('"""No attacker."""', "the docstring begins with the attacker"),
        (f"{ATTACKER}@pytest.mark.promise(NAME)\ndef test_a(): ...", "one literal string"),
        (f"{ATTACKER}@pytest.mark.promise\ndef test_a(): ...", "one literal string"),
        (f'{ATTACKER}@pytest.mark.promise("a")\n@pytest.mark.xfail\ndef test_a(): ...', "marked xfail"),
        (f'{ATTACKER}@pytest.mark.promise("a")\n@pytest.mark.skip(reason="b")\ndef test_a(): ...', "marked skip"),
    ],
)
def test_a_promise_without_a_test_fails(security: ModuleType, text: str, complaint: str):
    with pytest.raises(SystemExit, match=complaint):
        security.section("test_attacker_server.py", text)


def test_a_promise_written_by_hand_is_not_current(security: ModuleType):
    page = (ROOT / "SECURITY.md").read_text()
    assert security.pages() == {"SECURITY.md": page}
    for mark in (security.BEGIN, security.END, security.FIRST, security.LAST):
        assert page.count(mark) == 1
