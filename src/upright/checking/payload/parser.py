"""Command lines on stdin -> the verdict of the engine's own parser on each, as JSON. Runs where the engine is.

Input: a list of command lines, each a list of settings, each a list of words. Output: for each command line the
settings that were refused, as [words, message]. After a refusal the setting is left out and the rest is judged.
"""

import argparse
import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable

Words = list[str]
MOST_REFUSALS = 20
LEAST_TELLING_LETTERS = 4


def main() -> None:
    engine = sys.argv[1]
    lines = json.load(sys.stdin)
    talk = io.StringIO()
    with contextlib.redirect_stdout(talk), contextlib.redirect_stderr(talk):
        parse = {"vllm": vllm_parser, "sglang": sglang_parser}[engine]()
        verdicts = [refusals(parse, line) for line in lines]
    json.dump(verdicts, sys.stdout)


def refusals(parse: Callable[[Words], str | None], settings: list[Words]) -> list[tuple[Words, str]]:
    found: list[tuple[Words, str]] = []
    left = list(settings)
    while len(found) < MOST_REFUSALS:
        message = parse([word for setting in left for word in setting])
        if message is None:
            return found
        blamed = blame(message, left)
        found.append((blamed or [], message))
        if blamed is None:
            return found
        left.remove(blamed)
    return found


def blame(message: str, settings: list[Words]) -> Words | None:
    """The setting that a message names; else one whose value it repeats, if that is too long to be there by chance."""
    named = re.findall(r"--?[a-zA-Z][\w.-]*", message)
    for name in named:
        for setting in settings:
            if setting[0] == name:
                return setting
    for setting in settings:
        value = setting[1] if len(setting) > 1 else ""
        if len(value) >= LEAST_TELLING_LETTERS and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", message):
            return setting
    return None


def attempt(parse: Callable[[Words], object], words: Words) -> str | None:
    """None if the words are taken, else what the parser says."""
    talk = io.StringIO()
    try:
        with contextlib.redirect_stderr(talk):
            parse(words)
    except SystemExit:
        found = " ".join(talk.getvalue().rpartition("error:")[2].split())
        return found[:600] or "refused without a word"
    except Exception as error:  # whatever the engine raises is its verdict
        return " ".join(str(error).split())[:600] or type(error).__name__
    return None


def vllm_parser() -> Callable[[Words], str | None]:
    try:
        from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    except ImportError:
        from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    def parse(words: Words) -> None:
        parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
        validate_parsed_serve_args(parser.parse_args(words))

    return lambda words: attempt(parse, words) or vllm_names(words)


def vllm_names(words: Words) -> str | None:
    """What vLLM's parser lets through and its engine refuses: names that are not registered."""
    from vllm.reasoning import ReasoningParserManager

    try:
        from vllm.tool_parsers import ToolParserManager
    except ImportError:
        from vllm.entrypoints.openai.tool_parsers import ToolParserManager
    known = {
        "--reasoning-parser": set(ReasoningParserManager.list_registered()),
        "--tool-call-parser": set(ToolParserManager.list_registered()),
    }
    with contextlib.suppress(ImportError):
        from vllm.v1.attention.backends.registry import AttentionBackendEnum

        known["--attention-backend"] = set(AttentionBackendEnum.__members__)
    for flag, names in known.items():
        if flag in words and words[words.index(flag) + 1] not in names:
            name = words[words.index(flag) + 1]
            return f"argument {flag}: invalid choice: {name!r} (choose from {', '.join(sorted(names))})"[:600]
    return None


def sglang_parser() -> Callable[[Words], str | None]:
    os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")  # its import asks for a GPU otherwise
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang.launch_server", allow_abbrev=False)
    ServerArgs.add_cli_args(parser)
    return lambda words: attempt(parser.parse_args, words) or not_json(words)


def not_json(words: Words) -> str | None:
    for flag, value in zip(words, words[1:]):  # noqa: B905, RUF007  the engine's Python may be old
        if flag.startswith("--") and value.startswith("{"):
            try:
                json.loads(value)
            except ValueError as error:
                return f"argument {flag}: not JSON: {error}"
    return None


if __name__ == "__main__":
    main()
