"""Fleet + target -> the router's files, for machines that run without Upright."""

from __future__ import annotations

from dataclasses import dataclass

from upright.errors import UsageError
from upright.fleet.gateway import PAYLOAD, listing
from upright.records.fleet import Fleet
from upright.records.recipe import Recipe
from upright.rendering.router import router_recipe
from upright.rendering.router_files import TARGETS, kubernetes


@dataclass(frozen=True)
class Rendered:
    recipe: Recipe
    files: dict[str, str]
    main: str
    """The file that is the answer."""


def rendered(fleet: Fleet, to: str, *, folder: str) -> Rendered:
    recipe = router_recipe(
        fleet, folder=folder, program="python3", served_name=fleet.name,
        context_tokens=fleet.goal.context_tokens or 65_536,
    )  # fmt: skip
    workers = _list(fleet, in_cluster=to == "kubernetes")
    starter = PAYLOAD.read_text()
    if to == "kubernetes":
        return Rendered(recipe, {"router.yaml": kubernetes(recipe, starter=starter, workers=workers)}, "router.yaml")
    write, name = TARGETS[to]
    main = name.format(name=f"{fleet.name}-router")
    return Rendered(recipe, {main: write(recipe), "__main__.py": starter, "workers.json": workers}, main)


def _list(fleet: Fleet, *, in_cluster: bool) -> str:
    urls = {}
    for box in fleet.boxes:
        if in_cluster:
            urls[box.name] = f"http://{box.name}:{box.port}"
        elif box.address is not None:
            urls[box.name] = f"http://{box.address}:{box.port}"
        elif box.at == fleet.router.at:
            urls[box.name] = f"http://127.0.0.1:{box.port}"
        else:
            raise UsageError(
                f"box {box.name} has no address: without Upright there is no tunnel to {box.at}",
                hint="give it an address in fleet.yaml, or let Upright keep it: upright fleet up",
            )
    return listing(urls)
