"""Runs where vLLM is installed: what its parser and registries say against a command line."""

import contextlib
from collections.abc import Callable

Words = list[str]
Attempt = Callable[[Callable[[Words], object], Words], str | None]


def parser(attempt: Attempt) -> Callable[[Words], str | None]:
    try:
        from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    except ImportError:
        from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    def parse(words: Words) -> None:
        made = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
        validate_parsed_serve_args(made.parse_args(words))

    return lambda words: attempt(parse, words) or unregistered(words)


def unregistered(words: Words) -> str | None:
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
