"""argv -> exit code: `python -m upright`, and the console script.

Ctrl-C is answered in one word from the first import on.
"""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from upright.cli.main import main as upright
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    upright()


if __name__ == "__main__":
    main()
