"""argv -> exit code: `python -m upright`, and the console script.

Ctrl-C is answered in one word from the first import on.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for some costs as much as a plan
    try:
        from upright.app.cli.main import main as upright
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    upright()


if __name__ == "__main__":
    main()
