"""A help and a parser's source -> flags: neither prose nor what is only kept to be refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[3] / "scripts"
HELP = """\
usage: llama-server [--not-a-flag]

----- common params -----

-h,    --help, --usage                  print usage and exit
-c,    --ctx-size N                     size of the prompt context, see also --not-here-either
--fim-qwen-1.5b-default                 use default Qwen 2.5 Coder 1.5B
--draft, --draft-max N                  the argument has been removed. use --spec-draft-n-max or
                                        --spec-ngram-mod-n-max
--spec-ngram-size-n N                   the argument has
                                        been removed. use the respective --spec-ngram-*-size-n
                                        --spec-ngram-mod-n-match
"""
SOURCE = """\
add_opt(common_arg(
    {"-c", "--ctx-size"}, "N",
    string_format("size of the prompt context, with %s", "--"),
add_opt(common_arg(
    {"--fim-qwen-1.5b-default"},
    "use default Qwen 2.5 Coder 1.5B",
add_opt(common_arg(
    {"--draft", "--draft-max"}, "N",
    "the argument has been removed. use --spec-draft-n-max",
name = "--spec-ngram-" + kind;
"""


def printed(code: str, text: str) -> list[str]:
    """What a function of the script makes of a text; the script is no module, so it is loaded by the absorber."""
    program = f"import sys; sys.path.insert(0, {str(SCRIPTS)!r}); from absorbing.release import script; "
    program += f"print(*sorted(script('extract-flags').{code}(sys.stdin.read())))"
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_of_a_help_the_heads_of_its_options() -> None:
    assert printed("flags_of_help", HELP) == ["--ctx-size", "--fim-qwen-1.5b-default", "--help", "--usage", "-c", "-h"]


def test_of_the_parser_what_it_takes() -> None:
    assert printed("flags_of_llama", SOURCE) == ["--ctx-size", "--fim-qwen-1.5b-default", "-c"]
