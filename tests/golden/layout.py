"""Commands on the frozen catalogue -> every golden file of layout: pages, recipes, words of containers, the router.

`python -m tests.golden.layout`, on the frozen package, prints them as JSON; `layout()` starts it. What today's
catalogue gives is in facts.csv.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden.frozen_package import ROOT, printed_on_frozen_rows

GOLDEN = Path(__file__).parent
EIGHT = "kimi-k2.6 --box 8x-rtx-pro-6000-server"
WIDTHS = (50, 80, 120)
MAIN = {
    "plan": (f"plan {EIGHT}", 0),
    "plan-no": ("plan kimi-k2.6 --box 8x-rtx-5090", 1),
    "render": (f"render {EIGHT}", 0),
    "render-explain": (f"render {EIGHT} --explain", 0),
    "check": (f"check {EIGHT}", 0),
    "explain": ("explain DCP", 0),
    "compare": ("compare kimi-k2.6 --box 4x-rtx-pro-6000-server --box 8x-rtx-pro-6000-server --box hgx-b200", 0),
    "diagnose": ("diagnose tests/golden/pages/kv-cache-too-small.log", 1),
    "ps": ("ps", 0),
    "prove": ("prove --dry-run --to context --context 64k --rates 300,20", 0),
}
"""At three widths, with their exit codes."""
OTHERS = {
    "plan-hybrid": ("plan kimi-k2.6 --box 2x-rtx-pro-6000-max-q-epyc-9175f", 0),
    "plan-ram": ("plan kimi-k2.6 --box 1x-rtx-pro-6000-server --host-memory 512", 0),
    "plan-unified": ("plan kimi-k2.6 --box dgx-spark", 1),
    "plan-laptop": ("plan kimi-k2.6 --box laptop", 1),
    "plan-fraction": (
        "plan kimi-k2.5 --box 8x-rtx-pro-6000-server-dual-socket --engine sglang --engine-version 0.5.8 "
        "--gpu-memory-utilization 0.787",
        1,
    ),
    "recommend": ("recommend --box 8x-rtx-pro-6000-server", 0),
    "recommend-ram": ("recommend --box 1x-rtx-5090 --ram 128GB", 0),
    "recommend-unified": ("recommend --box dgx-spark", 0),
    "field-test": ("tools field-test --box 8x-rtx-pro-6000-server --dry-run", 0),
    "field-test-unified": ("tools field-test --box dgx-spark --dry-run", 0),
    "field-test-paid": ("tools field-test --box 1x-b200-sxm --dry-run --spend-limit 5 --price-per-hour 6", 0),
}
"""At 80 columns."""
FREE = ("render", "check")
"""A command to paste is not wrapped, and pipes get one line a sentence, so that they can be searched."""
CONTAINERS = ("kimi-k26-community-docker", "kimi-k26-sglang", "kimi-k2-thinking-nvfp4-sglang")
SUFFIXES = {"compose": "compose.yaml", "quadlet": "container", "systemd": "service", "kubernetes": "yaml"}


def layout() -> dict[Path, str]:
    """Every golden file of layout as the code makes it now."""
    with TemporaryDirectory() as folder:
        made: dict[str, str] = json.loads(printed_on_frozen_rows(__name__, Path(folder)))
    return {GOLDEN / name: text for name, text in made.items()}


def main() -> None:
    made = {**_pages(), **_recipes(), **_commands(), **_router()}
    print(json.dumps(made))


def _pages() -> dict[str, str]:
    cases = [(f"{name}-{columns}", case, columns) for name, case in MAIN.items() for columns in WIDTHS]
    cases += [(name, case, 80) for name, case in OTHERS.items()]
    return {f"pages/{name}.txt": _page(words, code, columns) for name, (words, code), columns in cases}


def _page(words: str, code: int, columns: int) -> str:
    from click.testing import CliRunner

    from upright.app.cli.main import cli

    os.environ["COLUMNS"] = str(columns)
    done = CliRunner().invoke(cli, words.split(), prog_name="upright")
    if done.exit_code != code:
        sys.exit(f"$ upright {words}\n{done.output}exit code {done.exit_code}, not {code}: {done.exception!r}")
    wide = [line for line in done.stdout.splitlines() if len(line) > columns and not _whole(line)]
    if wide and words.split()[0] not in FREE:
        sys.exit(f"$ upright {words}\nwider than {columns} columns: {wide}")
    return f"$ upright {words}\n{done.stdout}{done.stderr}"


def _whole(line: str) -> bool:
    """A word that cannot be broken, such as an address, or a line that is meant to be copied."""
    return len(line.split()) <= 2 or line.startswith(("accepted, ", "unverified, ", "sources "))


def _recipes() -> dict[str, str]:
    from tests.golden.deployments import PUBLISHED, recipe
    from upright.planning.rendering.targets import TARGETS

    return {
        f"recipes/{name}.{SUFFIXES.get(target, f'{target}.sh')}": TARGETS[target].write(recipe(name))
        for name, published in PUBLISHED.items()
        for target in published.targets
    }


def _commands() -> dict[str, str]:
    from tests.golden.deployments import recipe
    from tests.golden.test_commands import words

    return {
        f"commands/{name}.{runtime}.txt": "\n".join(words(recipe(name), runtime).argv) + "\n"
        for name in CONTAINERS
        for runtime in ("docker", "podman")
    }


def _router() -> dict[str, str]:
    from tests.golden.test_router import FILES, FLEET
    from upright.flows.fleet.rendering import render_router

    made = [render_router(FLEET, to, folder="/etc/upright/router") for to in FILES]
    return {f"router/{each.main}": each.files[each.main] for each in made}


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
