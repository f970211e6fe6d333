"""Command lines on stdin -> vLLM's own verdict on each, as JSON. Runs in the interpreter that has vLLM."""

import contextlib
import io
import json
import sys


def main() -> None:
    lines = json.load(sys.stdin)
    talk = io.StringIO()
    with contextlib.redirect_stdout(talk), contextlib.redirect_stderr(talk):
        verdicts = judge(lines)
    json.dump(verdicts, sys.stdout)


def judge(lines: list[list[str]]) -> list[str | None]:
    try:
        from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    except ImportError:
        from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    def one(words: list[str]) -> str | None:
        """None if it is taken, else the parser's words."""
        talk = io.StringIO()
        parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
        try:
            with contextlib.redirect_stderr(talk):
                validate_parsed_serve_args(parser.parse_args(words))
        except SystemExit:
            errors = [line for line in talk.getvalue().splitlines() if "error:" in line]
            return errors[-1].partition("error:")[2].strip() if errors else "refused without a word"
        except Exception as error:  # whatever the engine raises is its verdict
            return " ".join(str(error).split())[:500] or type(error).__name__
        return names(words)

    return [one(words) for words in lines]


def names(words: list[str]) -> str | None:
    """What the parser lets through: names of parsers that do not exist."""
    from vllm.reasoning import ReasoningParserManager

    try:
        from vllm.tool_parsers import ToolParserManager
    except ImportError:
        from vllm.entrypoints.openai.tool_parsers import ToolParserManager
    for flag, known in (
        ("--reasoning-parser", ReasoningParserManager),
        ("--tool-call-parser", ToolParserManager),
    ):
        if flag in words:
            name = words[words.index(flag) + 1]
            listed = known.list_registered()
            if name not in listed:
                return f"argument {flag}: invalid choice: {name!r} (choose from {', '.join(sorted(listed))})"
    if "--attention-backend" in words:
        try:
            from vllm.v1.attention.backends.registry import AttentionBackendEnum
        except ImportError:
            return None
        name = words[words.index("--attention-backend") + 1]
        if name not in AttentionBackendEnum.__members__:
            return f"argument --attention-backend: no backend named {name}"
    return None


if __name__ == "__main__":
    main()
