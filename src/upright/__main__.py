"""argv -> exit code: `python -m upright`, and the console script.

Ctrl-C is answered in one word from the first import on, and garbage is looked for less often: most of a command's
life is imports.
"""

from __future__ import annotations

import atexit
import gc
import sys

GARBAGE_THRESHOLD = 200_000
"""New objects between two looks for garbage: more than a plan makes with all its imports, few for a long load."""


def main() -> None:
    gc.set_threshold(GARBAGE_THRESHOLD, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)  # nobody needs the memory back that the process itself gives back
    try:
        from upright.app.cli.main import main as upright
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    upright()


if __name__ == "__main__":
    main()
