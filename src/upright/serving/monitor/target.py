"""The metrics page of a deployment: address, key, and the metrics that its engine's version exports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from upright.base.errors import UsageError
from upright.engines import engine_named
from upright.engines.speculation import speculation_of
from upright.facts.catalog.recorded_metrics import RecordedMetrics, nearest_metrics
from upright.facts.records.deployment import Deployment
from upright.facts.records.recipe import Recipe
from upright.planning.rendering.container import ROUTER


@dataclass(frozen=True)
class MetricsTarget:
    """One page of metrics."""

    name: str
    """The deployment, as verbs take it; the label `deployment`."""
    software: str
    """The engine, or the router; the label `software`. vLLM has a label `engine` of its own."""
    version: str | None
    """Its version; None if nobody knows, then the newest recorded one speaks for it."""
    model: str
    """The name that clients use; the label `model`."""
    address: str
    """host:port, as a Prometheus on this machine reaches it."""
    path: str = "/metrics"
    scheme: str = "http"
    key_file: Path | None = None
    """The file that holds the key, if its metrics want one."""
    speculates: bool = False
    """Whether it guesses tokens: engines that do not still export counters that stay 0."""

    @property
    def metrics(self) -> RecordedMetrics:
        found = nearest_metrics(self.software, self.version)
        if found is None:
            raise UsageError(f"nobody recorded which metrics {self.software} exports")
        return found

    @property
    def labels(self) -> dict[str, str]:
        """What every series of it carries, beside the engine's own labels."""
        labels = {"deployment": self.name, "software": self.software, "version": self.metrics.version}
        return labels | {"model": self.model}


def deployment_target(deployment: Deployment, recipe: Recipe, key_file: Path) -> MetricsTarget | None:
    """None if it has no metrics that can be reached from here."""
    if deployment.engine == ROUTER:
        return _router_target(deployment, recipe)
    if recipe.metrics_path is None:
        return None
    url = urlsplit(deployment.base_url)
    return MetricsTarget(
        name=deployment.name,
        software=deployment.engine,
        version=deployment.engine_version,
        model=deployment.served_name,
        address=url.netloc,
        path=recipe.metrics_path,
        scheme=url.scheme,
        key_file=key_file if engine_named(deployment.engine).http.metrics_guarded else None,
        speculates=speculation_of(recipe) is not None,
    )


def _router_target(deployment: Deployment, recipe: Recipe) -> MetricsTarget | None:
    """smg has a port of its own for them, without a key, on the loopback of its machine."""
    flag_values = {setting.name: setting.value for setting in recipe.arguments}
    port = flag_values.get("--prometheus-port")
    if port is None or deployment.machine is not None:
        return None
    return MetricsTarget(
        name=deployment.name,
        software=ROUTER,
        version=deployment.engine_version,
        model=deployment.served_name,
        address=f"{flag_values.get('--prometheus-host') or '127.0.0.1'}:{port}",
    )
