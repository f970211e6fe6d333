from __future__ import annotations

import ast

import pytest

from upright.base.errors import EngineError
from upright.facts.catalog.rows.patch import Edit
from upright.proof.kernels import patching

TEXT = '''# über alles
def before():
    return 1


def launch(q, flag):
    """Words."""
    n = 2  # kept
    if q > 9:
        n = 3
    elif q > 8:
        n = 4
    s = "ä"; kernel[(1,)](q, n)
    kernel_two[(1,)](q,
        n)


def after():  # comment
    return kernel_two
'''
BRANCH = Edit(kind="branch-before", function="launch", anchor="q > 9", code="if q == 12:\n    # twelve\n    n = 1\n")
STATEMENT = Edit(kind="statement-before", function="launch", anchor="kernel_two", code="if flag:\n    n = 1\n")


def test_a_branch_comes_first_and_the_old_one_becomes_elif() -> None:
    new = patching.apply_edit(TEXT, BRANCH)
    assert "    if q == 12:\n        # twelve\n        n = 1\n    elif q > 9:\n        n = 3\n    elif q > 8:\n" in new
    assert patching.changed_functions(TEXT, new) == {"launch"}


def test_a_statement_stands_before_the_launch() -> None:
    new = patching.apply_edit(TEXT, STATEMENT)
    assert "    if flag:\n        n = 1\n    kernel_two[(1,)](q,\n        n)\n" in new
    assert new.replace("    if flag:\n        n = 1\n", "") == TEXT  # every other byte stays


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"function": "absent"}, "0 functions absent, not one"),
        ({"anchor": "q > 10"}, "0 places 'q > 10', not one"),
        ({"anchor": "q > 8"}, "does not stand at the start of a line"),  # an elif: a branch before it is another thing
        ({"code": "if q == :\n    pass"}, "does not parse"),
        ({"code": "n = 1"}, "does not parse"),
        ({"kind": "statement-before", "anchor": "kernel"}, "does not stand at the start of a line"),
    ],
)
def test_an_edit_that_does_not_match_is_refused(changes: dict[str, str], cause: str) -> None:
    with pytest.raises(EngineError, match=cause):
        patching.apply_edit(TEXT, BRANCH.model_copy(update=changes))


def test_an_edit_may_change_only_its_function() -> None:
    leaking = STATEMENT.model_copy(update={"code": "pass\n\ndef other():\n    pass\n\ndef more():"})
    with pytest.raises(EngineError, match=r"does not parse|not only launch"):
        patching.apply_edit(TEXT, leaking)


def test_the_result_parses_and_keeps_the_rest_of_the_tree() -> None:
    old, new = (ast.parse(text).body for text in (TEXT, patching.apply_edit(TEXT, BRANCH)))
    assert [ast.dump(node) for node in (old[0], old[2])] == [ast.dump(node) for node in (new[0], new[2])]
