"""Where mlx-lm is looked for."""

from __future__ import annotations

from upright.engines.facets.finding import PackageFinding

FINDING = PackageFinding(name="mlx_lm.server", module="mlx_lm.server", distributions={"mlx-lm": ""})
