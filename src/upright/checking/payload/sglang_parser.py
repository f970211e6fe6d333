"""Command lines on stdin -> SGLang's own verdict on each, as JSON. Runs in the interpreter that has SGLang."""

import argparse
import contextlib
import io
import itertools
import json
import os
import sys


def main() -> None:
    os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")  # its import asks for a GPU otherwise
    lines = json.load(sys.stdin)
    talk = io.StringIO()
    with contextlib.redirect_stdout(talk), contextlib.redirect_stderr(talk):
        verdicts = judge(lines)
    json.dump(verdicts, sys.stdout)


def judge(lines: list[list[str]]) -> list[str | None]:
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang.launch_server", allow_abbrev=False)
    ServerArgs.add_cli_args(parser)

    def one(words: list[str]) -> str | None:
        """None if it is taken, else the parser's words."""
        talk = io.StringIO()
        try:
            with contextlib.redirect_stderr(talk):
                parser.parse_args(words)
        except SystemExit:
            errors = [line for line in talk.getvalue().splitlines() if "error:" in line]
            return errors[-1].partition("error:")[2].strip()[:500] if errors else "refused without a word"
        except Exception as error:  # whatever the engine raises is its verdict
            return " ".join(str(error).split())[:500] or type(error).__name__
        for flag, value in itertools.pairwise(words):
            if flag.startswith("--") and value.startswith("{"):
                try:
                    json.loads(value)
                except ValueError as error:
                    return f"argument {flag}: not JSON: {error}"
        return None

    return [one(words) for words in lines]


if __name__ == "__main__":
    main()
