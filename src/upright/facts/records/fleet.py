"""Several boxes behind one endpoint, as a person writes it down: what runs where, and the router in front."""

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from upright.facts.records.base import Part, Reason, Record, Upgrade, fields_added
from upright.facts.records.names import SafeName
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Runtime

HERE = "here"
KIND = "box:"
"""Before the name of a box of the catalogue, in place of a machine: what it would run is planned and written."""
GENERATED = "generated"
Policy = Literal[
    "auto", "cache_aware", "prefix_hash", "consistent_hashing", "least_load", "power_of_two", "round_robin"
]
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?")


def _plain_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no name: small letters, digits, dots and dashes, at most 40")
    return value


def _place(value: str) -> str:
    if value != HERE and not re.fullmatch(r"ssh:[^\s-]\S*", value):
        raise ValueError(f"{value!r} is no machine: write here, or ssh:HOST")
    return value


def _box_place(value: str) -> str:
    if value.startswith(KIND) and value.removeprefix(KIND).strip():
        return value
    try:
        return _place(value)
    except ValueError as error:
        raise ValueError(f"{error}; or box:NAME of a machine of the catalogue, to plan and to render") from None


def _address(value: str) -> str:
    try:
        ipaddress.IPv4Address(value)
    except ValueError:
        raise ValueError(f"{value!r} is no address: write the IPv4 address that the machine has") from None
    return value


def _private(value: str) -> str:
    address = ipaddress.IPv4Address(_address(value))
    if address.is_global or address.is_unspecified:
        raise ValueError(f"{value} is open to the world: an engine answers the router alone, on a private address")
    return value


def _key(value: str) -> str:
    if value != GENERATED and not re.fullmatch(r"(file|env):\S+", value):
        raise ValueError("a key is named, never written here: generated, file:PATH or env:VARIABLE")
    return value


Name = Annotated[str, AfterValidator(_plain_name)]
Place = Annotated[str, AfterValidator(_place)]
BoxPlace = Annotated[SafeName, AfterValidator(_box_place)]
Address = Annotated[str, AfterValidator(_address)]
PrivateAddress = Annotated[str, AfterValidator(_private)]
KeyReference = Annotated[str, AfterValidator(_key)]
Port = Annotated[int, Field(ge=1, le=65535)]


class FleetBox(Part):
    """One machine, and what it runs."""

    name: Name
    """How the fleet calls it."""
    at: BoxPlace = HERE
    """`here`, `ssh:HOST` as the user's own ssh calls it, or `box:NAME` of the catalogue for what others will start."""
    address: PrivateAddress | None = None
    """What its engine binds and the router goes to; None: loopback, through ssh's tunnel where it is elsewhere."""
    port: Port = 8000
    """The engine's port on the box."""
    local_port: Port | None = None
    """Our end of the tunnel to a box elsewhere; None: the fleet chooses one."""
    model: SafeName | None = None
    """What it serves, where that is not the fleet's."""
    goal: Goal | None = None
    """What is wanted of it, where that is not the fleet's."""
    recipe: SafeName | None = None
    """A recipe's file, beside this one, in place of a plan."""
    model_path: SafeName | None = None
    """Where the weights are on that machine, if not where they are here."""
    runtime: Runtime = "process"
    """What its engine runs in; with a recipe and nothing said here, what the recipe says."""
    image: SafeName | None = None
    """The image, for a container."""

    @property
    def machine(self) -> str | None:
        """As ssh calls it; None for this machine."""
        return None if self.at == HERE else self.at.partition(":")[2]

    @property
    def catalog_box(self) -> str | None:
        """The kind of machine that it stands for; None of a machine that can be reached."""
        return self.at.removeprefix(KIND) if self.at.startswith(KIND) else None


class Router(Part):
    """The gateway in front of the boxes. What is None is chosen, with a reason."""

    at: Place = HERE
    """`here`, or `ssh:HOST`."""
    address: Address = "127.0.0.1"
    """The address that clients reach; loopback unless it is said otherwise."""
    port: Port = 9000
    """Where clients ask."""
    local_port: Port | None = None
    """Our end of the tunnel to a router elsewhere; None: the same as its port."""
    metrics_port: Port = 29000
    """Prometheus metrics, on loopback alone."""
    policy: Policy = "auto"
    """How it chooses a box; `auto`: by the goal's use."""
    cache_threshold: float | None = Field(default=None, gt=0, lt=1)
    """Of a prompt, what a box must know to be sent it; None: above what first turns share, by the goal's use."""
    runtime: Runtime = "process"
    """What it runs in."""
    image: SafeName | None = None
    """The image, for a container."""
    program: SafeName | None = None
    """Where smg is on that machine; None: smg of its PATH, or UPRIGHT_SMG."""
    health_seconds: int = Field(default=5, ge=1)
    """Between two looks at a box."""
    request_seconds: int = Field(default=3600, ge=1)
    """The longest that one answer may take."""
    requests_at_once: int | None = Field(default=None, ge=1)
    """More than these wait; None: four times what the boxes serve at once."""

    @property
    def machine(self) -> str | None:
        """As ssh calls it; None for this machine."""
        return None if self.at == HERE else self.at.partition(":")[2]


class BoxState(Part):
    """One box of a fleet that was started."""

    name: Name
    """As the fleet calls it."""
    deployment: SafeName | None = None
    """The deployment that runs there; None if none was ever started."""
    admitted: bool = False
    """Whether the router's list has it."""


Phase = Literal[
    "draining", "stopping", "starting", "restarting", "proving", "admitting", "done", "stepping back", "stepped back"
]
StepKind = Literal["add", "remove", "move", "recipe", "restart", "router"]


class RollStep(Part):
    """How far a roll came with one box, or with the router."""

    box: Name
    """Which box; `router` for the router, whose kind says so too."""
    kind: StepKind = "recipe"
    """What the roll does to it: a box joins, leaves, goes elsewhere, gets another recipe, or is only restarted."""
    phase: Phase
    """What is being done with it, or was when the roll ended."""
    before: str | None
    """`recipe:sha256` that it ran with; None for one that joins."""
    after: str | None
    """`recipe:sha256` that it is to run with; None for one that leaves."""
    left: SafeName | None = None
    """The deployment that it had before it went elsewhere."""
    reason: Reason | None = None
    """Why it was stepped back."""
    at: str
    """When this phase began (UTC, ISO 8601)."""


class Roll(Part):
    """A roll over the boxes, written down before each step."""

    begun_at: str
    """When (UTC, ISO 8601)."""
    steps: tuple[RollStep, ...] = ()
    """One for each box that it came to, in order."""
    outcome: Literal["going on", "done", "stopped"] = "going on"
    """How it ended; `going on` with nobody at it means that it was killed."""
    reason: Reason | None = None
    """Why it was stopped."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 rolled recipes only, which is what the new fields say when they are left out."""
    return content


class FleetState(Record):
    """What a fleet's commands have done; whoever holds the fleet's lock is the only writer."""

    kind: ClassVar[str] = "fleet-state"
    schema_version: ClassVar[int] = 2
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1}

    name: Name
    """The fleet's name."""
    boxes: tuple[BoxState, ...] = ()
    """In the fleet's order."""
    router: SafeName | None = None
    """The router's deployment."""
    roll: Roll | None = None
    """The last roll."""

    def box(self, name: str) -> BoxState:
        return next((box for box in self.boxes if box.name == name), BoxState(name=name))

    def without(self, name: str) -> "FleetState":
        """The same without that box."""
        return self.model_copy(update={"boxes": tuple(box for box in self.boxes if box.name != name)})

    def with_box(self, changed: BoxState) -> "FleetState":
        """The same with that box as it is now; a new one comes last."""
        others = {box.name: box for box in self.boxes} | {changed.name: changed}
        return self.model_copy(update={"boxes": tuple(others.values())})


class Fleet(Record):
    """Boxes that serve one model each, and the router in front of them."""

    kind: ClassVar[str] = "fleet"
    schema_version: ClassVar[int] = 5
    upgrades: ClassVar[Mapping[int, Upgrade]] = dict.fromkeys((1, 2, 3, 4), fields_added)

    name: Name
    """How verbs call it."""
    model: SafeName | None = None
    """What the boxes serve, where they do not say otherwise."""
    goal: Goal = Goal()
    """What is wanted of each box."""
    boxes: tuple[FleetBox, ...] = Field(min_length=1)
    """In the order in which a roll takes them."""
    router: Router = Router()
    """What clients talk to."""
    client_key: KeyReference = GENERATED
    """The key that clients show to the router: `generated`, `file:PATH` or `env:VARIABLE`."""
    drain_seconds: float = Field(default=900, gt=0)
    """How long a roll waits for a box's running requests to end."""
    prove_to: str = "smoke"
    """The last rung that a box must climb before it is admitted again."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name, count in Counter(box.name for box in self.boxes).items():
            if count > 1:
                raise ValueError(f"{count} boxes are named {name}")
        taken: dict[tuple[str, int], str] = {}
        for box in self.boxes:
            if box.model is None and box.recipe is None and self.model is None:
                raise ValueError(f"box {box.name} has no model: name one for it, or for the fleet")
            if (there := (box.name if box.catalog_box else box.at, box.port)) in taken:
                raise ValueError(f"{taken[there]} and {box.name} both want port {box.port} of {box.at}")
            taken[there] = box.name
            if box.address is None and self.router.at not in (HERE, box.at):
                raise ValueError(
                    f"box {box.name} has no address, and the router on {self.router.at} could not reach it"
                )
        for what, port in (("the router", self.router.port), ("the router's metrics", self.router.metrics_port)):
            if (there := (self.router.at, port)) in taken:
                raise ValueError(f"{what} and {taken[there]} both want port {port} of {self.router.at}")
            taken[there] = what
        return self

    def source(self, box: FleetBox) -> str:
        """What that box serves."""
        return box.model or self.model or ""
