"""A fit on a person's own measurements, or the cells to measure for one -> the page."""

from __future__ import annotations

from upright.base.units import format_duration
from upright.facts.catalog.rows.speed import SpeedRow
from upright.planning.requests.calibration import REPEATS, Calibration, Campaign


def calibration_page(calibration: Calibration, row: SpeedRow) -> str:
    start = calibration.start
    lines = [f"{calibration.rows} measurements, {len(calibration.fitted)} constants fitted, from speeds/{start.id}", ""]
    lines.append(f"  {'constant':<26}{'before':>10}{'now':>10}")
    for name in calibration.fitted:
        before, now = getattr(start.constants, name), getattr(row.constants, name)
        lines.append(f"  {name:<26}{before:>10.4g}{now:>10.4g}")
    lines += ["", f"  {'error':<34}{'median':>8}{'9 of 10':>9}"]
    fits = (("by the catalogue", calibration.before), ("fitted without the row itself", calibration.held_out))
    lines += [f"  {fit:<34}{errors.median:>8.1%}{errors.ninth:>9.1%}" for fit, errors in fits]
    return "\n".join(lines)


def campaign_page(campaign: Campaign) -> str:
    """Which cells to measure, why, and what they are worth."""
    many = f"{len(campaign.cells)} cells, each {REPEATS} times, about {format_duration(campaign.seconds)}"
    lines = [f"{many}; those that tell most are taken", ""]
    lines.append(f"  {'users':>5}{'prompt':>10}{'answer':>8}{'about':>12}  tells most of")
    for cell in campaign.cells:
        tokens = f"{cell.prompt_tokens:>10,}{cell.output_tokens:>8,}"
        lines.append(f"  {cell.users:>5}{tokens}{format_duration(cell.seconds):>12}  {cell.tells}")
    lines += [
        "",
        f"  Decode over all such loads is uncertain by {campaign.uncertain_before:.0%}, with these by "
        f"{campaign.uncertain_after:.0%}: one standard",
        "  deviation, if a cell's median lies within 5%.",
    ]
    return "\n".join(lines)
