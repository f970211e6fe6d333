"""The contract that every engine fulfils: who it is, and its facets.

A facet is read when it is asked for, so that a plan loads no log patterns. One that an engine does not have says so:
who asks for it answers "not known", and never takes another engine's rule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, Self, TypeVar, overload

if TYPE_CHECKING:
    from upright.engines.facets.bench import BenchTool
    from upright.engines.facets.budget import Budget
    from upright.engines.facets.finding import Finding
    from upright.engines.facets.flags import Flags
    from upright.engines.facets.http import Http
    from upright.engines.facets.kernels import TritonKernels
    from upright.engines.facets.log import Log
    from upright.engines.facets.metrics import MetricNames
    from upright.engines.facets.proof import EngineProof
    from upright.engines.facets.releases import Releases
    from upright.engines.facets.speculation import Speculating
    from upright.engines.facets.spread import Spread
    from upright.engines.facets.tiers import Tiers

Format = Literal["safetensors", "gguf"]
LAST = 9
Known = TypeVar("Known", covariant=True)


class Facet(Generic[Known]):
    """An engine's facet, `module:NAME`: loaded when somebody asks for it, and kept by the engine from then on.

    With something given, NAME is a function of it.
    """

    def __init__(self, where: str, *given: str) -> None:
        self._where = where
        self._given = given

    def __set_name__(self, owner: type[Engine], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, engine: None, owner: type[Engine]) -> Self: ...
    @overload
    def __get__(self, engine: Engine, owner: type[Engine]) -> Known: ...
    def __get__(self, engine: Engine | None, owner: type[Engine]) -> Self | Known:
        if engine is None:
            return self
        module, _, name = self._where.partition(":")
        found = getattr(import_module(module), name)
        known: Known = found(*self._given) if self._given else found
        vars(engine)[self._name] = known
        return known


class Engine(ABC):
    """One inference engine."""

    name: ClassVar[str]
    """As people type it and records keep it."""
    title: ClassVar[str]
    """As its makers write it."""
    loads: ClassVar[tuple[Format, ...]]
    """Artifacts that it takes."""
    runs_on: ClassVar[tuple[str, ...]] = ("nvidia",)
    """GPUs that it has kernels for, by vendor or by compute capability."""
    only_there: ClassVar[bool] = False
    """Offered only where such a GPU is known to be; elsewhere it is planned where a person names it."""
    own_packing: ClassVar[str | None] = None
    """The first word of `quantisation` of weights that it reads and engines without this word do not."""
    cache_types: ClassVar[tuple[str, ...]] = ()
    """Types of the KV cache that its flag takes, as `--kv-dtype` has them, its usual one first; none: not known."""
    program: ClassVar[str]
    """Its bare command."""
    where_from: ClassVar[str]
    """What to tell a person who does not have it."""
    fetches_builds: ClassVar[bool] = False
    """Whether its command may name OWNER/REPO:QUANT of the hub in place of a GGUF that is here."""
    offline_variable: ClassVar[str] = "HF_HUB_OFFLINE"
    """Set to 1 it keeps to what the hub cache holds."""
    standing: ClassVar[int] = LAST
    """Which comes first of several plans of which nothing better is known: the lower one."""
    standing_hybrid: ClassVar[int | None] = None
    """The same for a model with latent attention whose experts are partly in system RAM; None for no difference."""
    by_name_only: ClassVar[bool] = False
    """Planned only where a person names it: nothing is known by which it could be held against the others."""
    constrained_by: ClassVar[Mapping[str, str]] = {}
    """Flags that its constraints go by, each with the fact that it sets."""

    @property
    @abstractmethod
    def flags(self) -> Flags:
        """Its command line."""

    @property
    @abstractmethod
    def http(self) -> Http:
        """Its server."""

    @property
    def budget(self) -> Budget | None:
        """What it may use of a GPU; None: not known, nothing can be planned."""
        return None

    @property
    def spread(self) -> Spread | None:
        """How a model lies on devices; None: not known, nothing can be planned."""
        return None

    @property
    def releases(self) -> Releases | None:
        """Its versions; None: not known, any text is a version and none is newer than another."""
        return None

    @property
    def log(self) -> Log:
        """What it prints; nothing is known by default."""
        from upright.engines.facets.log import Log

        return Log()

    @property
    def metrics(self) -> MetricNames:
        """How it spells what it counts; nothing is known by default."""
        from upright.engines.facets.metrics import NOT_KNOWN

        return NOT_KNOWN

    @property
    def finding(self) -> Finding | None:
        """Where it is looked for on a machine; None: not known, it is never found and can only be named."""
        return None

    @property
    def proof(self) -> EngineProof:
        """What can be proved without weights; nothing is known by default."""
        from upright.engines.facets.proof import EngineProof

        return EngineProof()

    @property
    def kernels(self) -> TritonKernels | None:
        """Its own Triton kernels; None: it has none, or none that are known."""
        return None

    @property
    def bench(self) -> BenchTool | None:
        """Its own load generator; None: it has none, or none that is known."""
        return None

    @property
    def speculation(self) -> Speculating | None:
        """Its speculative decoding; None: it has none, as far as is known."""
        return None

    @property
    def tiers(self) -> Tiers | None:
        """How it keeps its cache in system RAM too; None: it cannot, as far as is known."""
        return None
