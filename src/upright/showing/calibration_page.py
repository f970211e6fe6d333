"""A fit on a person's own measurements -> the page: which constants moved, and whether they predict better."""

from __future__ import annotations

from upright.catalog.rows.speed import SpeedRow
from upright.requesting.calibrating import Calibration


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
