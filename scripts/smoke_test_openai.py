#!/usr/bin/env python3
"""--base-url URL --model NAME -> a verdict: `upright prove` on a server that somebody else started.

A thin wrapper, so that the command of the first Kimi K2.6 write-ups works as they print it. Further options of
`upright prove` are passed on.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))  # a checkout works without an installation


def main() -> None:
    from upright.app.cli.main import main as upright

    if not {"-h", "--help"} & set(sys.argv[1:]) and not any(word.startswith("--base-url") for word in sys.argv[1:]):
        sys.exit("usage: smoke_test_openai.py --base-url URL --model NAME [options of upright prove]")
    sys.argv = ["upright", "prove", *sys.argv[1:]]
    upright()


if __name__ == "__main__":
    main()
