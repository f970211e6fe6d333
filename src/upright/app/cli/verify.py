"""`upright share verify`."""

from __future__ import annotations

from pathlib import Path

import click

from upright.app.cli.output import Output, output_options

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("bundle", type=_FILE)
@click.option("--signature", type=_FILE, metavar="FILE", help="Its signature.  [default: BUNDLE.sig, if there is one]")
@click.option(
    "--key", type=_FILE, metavar="FILE", help="Public keys; it must be signed by one, and repeats count by them."
)
@click.option(
    "--with", "repeats", type=_FILE, multiple=True, metavar="FILE", help="A bundle that repeats it; again for more."
)
@click.option(
    "--at-least", type=click.Choice(["claimed", "consistent", "reproduced"]), help="Answer no below this level."
)
@output_options
def command(
    bundle: Path, signature: Path | None, key: Path | None, repeats: tuple[Path, ...], at_least: str | None,
    output: Output,
) -> None:  # fmt: skip
    """Check somebody's evidence: every headline from its raw samples, digests, redaction, physics.

    Levels: broken; claimed (no raw data); consistent (everything follows from its samples, and physics allows it);
    reproduced (others whose keys you name, on boxes of their own, came to the same); stale (the engine moved on). A
    signature says who claims it, never that it ran. Exit code 1 if it is broken or below --at-least.
    """
    from upright.app.pages.verify_page import verification_page
    from upright.evidence.share.checks import LEVELS
    from upright.evidence.share.opening import open_bundle
    from upright.evidence.share.signing import fingerprints

    trusted = fingerprints(key) if key else frozenset()
    verification = open_bundle(bundle, signature=signature, trusted=trusted, repeats=repeats).verification
    output.answer(verification.model_dump(mode="json"), lambda console: verification_page(console, verification))
    if verification.level == "broken" or LEVELS.index(verification.level) < LEVELS.index(at_least or "broken"):
        output.no()
