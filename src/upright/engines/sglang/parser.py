"""Runs where SGLang is installed: what its parser says against a command line; None if it takes it."""

import argparse
import json
import os
from collections.abc import Callable

Words = list[str]
Attempt = Callable[[Callable[[Words], object], Words], str | None]


def parser(attempt: Attempt) -> Callable[[Words], str | None]:
    os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")  # its import asks for a GPU otherwise
    from sglang.srt.server_args import ServerArgs

    made = argparse.ArgumentParser(prog="sglang.launch_server", allow_abbrev=False)
    ServerArgs.add_cli_args(made)
    return lambda arguments: attempt(made.parse_args, arguments) or not_json(arguments)


def not_json(words: Words) -> str | None:
    for flag, operand in zip(words, words[1:]):  # noqa: B905, RUF007  the engine's Python may be old
        if flag.startswith("--") and operand.startswith("{"):
            try:
                json.loads(operand)
            except ValueError as error:
                return f"argument {flag}: not JSON: {error}"
    return None
