"""The exact command, with a reason for every word of it."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from upright.facts.records.base import Part, Reason, Record, Upgrade
from upright.facts.records.names import SafeName

KEY_FILE = "{key_file}"
"""Stands in a recipe for the file that holds the API key; only the launcher knows where that is."""
KEY = "{key}"
"""Stands in a recipe's environment for the key itself, which is never written down in a recipe."""
KEY_CONFIG = "{key_config}"
"""Stands for a YAML file `api-key: KEY`, for an engine that takes its key in no other hidden way."""
PASSED_VALUE = "{environment}"
"""Stands for a variable's value in the environment of whoever starts it: handed on, and never written down."""
UNKNOWN_FOLDER = "/path/to/the/weights"
"""Stands for the folder of a GGUF that is not on this machine; the person or `upright fetch` knows it."""
FIRST_FILE = "FIRST-FILE.gguf"
"""Stands for the name of its first file, where nobody has read the repository."""

KeyDelivery = Literal["file", "environment", "config"]
Runtime = Literal["process", "podman", "docker"]
AttentionName = Literal["dense-mla", "sparse-mla", "gqa", "windowed", "linear", "compressed", "shared"]
WeightFormat = Literal["fp8-block", "fp8", "nvfp4", "mxfp4", "int4", "int8", "awq", "gptq", "bf16", "gguf"]
ThinkingDefault = Literal["on", "off", "always", "never"]


class Setting(Part):
    """A flag or an environment variable, why it is there, and where that was learned."""

    name: SafeName
    """`--ctx-size`, or the name of the variable."""
    value: Annotated[str, Field(coerce_numbers_to_str=True)] | None = None
    """None for a flag that stands alone."""
    reason: Reason
    """Why it is there."""
    source: str | None = None
    """Where that was learned; None if the reason is the plan itself."""


class Circumstances(Part):
    """What a recipe was written for, as far as an engine's constraints go by it."""

    compute_capability: SafeName | None = None
    """The GPUs' architecture; None if it has none, or it is not known."""
    box_gpus: int = 0
    """GPUs of the box."""
    unified_memory: bool = False
    """GPU and system share one memory."""
    model: SafeName | None = None
    """The model's row in the catalogue; None if it has none."""
    artifact: SafeName | None = None
    """The artifact that was planned."""
    architecture: SafeName | None = None
    """The class that the engine builds."""
    attention: tuple[AttentionName, ...] = ()
    """Kinds of its attention layers."""
    kv_heads: int | None = None
    """The fewest KV heads of a layer; None if every rank needs all of the cache."""
    index_top_k: int | None = None
    """Tokens that a sparse indexer lets through."""
    experts: int | None = None
    """Routed experts of a layer; None for a dense model."""
    expert_width: int | None = None
    """Width of one routed expert."""
    expert_format: WeightFormat | None = None
    """How routed experts are stored; None if that is not known."""
    expert_block: int | None = None
    """Weights that share a scale."""
    thinking: ThinkingDefault | None = None
    """What the artifact does when nobody asks; None if that is not known."""
    patches: tuple[SafeName, ...] = ()
    """What the build carries that upstream has not."""
    image: SafeName | None = None
    """The row of the image, if it is a community's."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 knew one box."""
    return content


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 2 did not say what it was written for: it stays unknown."""
    return content


def _from_3(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 3 took an image for a release: its commit, program, packages and draft stay unknown."""
    return content


class Recipe(Record):
    """Nothing left to decide."""

    kind: ClassVar[str] = "recipe"
    schema_version: ClassVar[int] = 4
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1, 2: _from_2, 3: _from_3}

    engine: SafeName
    """Which engine."""
    engine_version: SafeName | None
    """The version it was written for."""
    engine_commit: SafeName | None = None
    """The commit that the image was built from; None for a release."""
    circumstances: Circumstances | None = None
    """What it was written for; None if nobody wrote that down."""
    runtime: Runtime
    """How the engine is started."""
    program: SafeName
    """Path of the executable, or its bare command if the box was not asked or has none."""
    installed: bool = True
    """Whether the program was found on the box."""
    image: SafeName | None = None
    """The container image that holds this engine; None if none is known."""
    image_about: str | None = None
    """Who builds the image, and what to know of it."""
    image_program: SafeName | None = None
    """Where the engine's program is inside the image; None for one on its PATH."""
    packages: tuple[SafeName, ...] = ()
    """Python packages that are installed into the container before the engine starts: `name==version`."""
    key_way: KeyDelivery = "file"
    """How the engine is given the API key."""
    arguments: tuple[Setting, ...]
    """Flags in order."""
    environment: tuple[Setting, ...] = ()
    """Variables set for the engine."""
    model_path: SafeName
    """The file, directory or repository that the engine loads."""
    draft: SafeName | None = None
    """The draft model that it loads besides, for speculative decoding; None without one."""
    served_name: SafeName
    """The name that clients use."""
    host: SafeName
    """Address it binds."""
    port: int
    """Port it binds."""
    context_tokens: int
    """Context for each user."""
    users: int
    """Requests at once."""
    health_path: SafeName
    """Answers 200 once loaded; proves nothing more."""
    metrics_path: SafeName | None
    """Prometheus metrics, if the engine has them."""
    gpus: int = 0
    """GPUs that it takes, on this box."""
    memory_limit_bytes: int | None = None
    """What its processes may take of system RAM, where GPU and system share it; None for no limit."""
    nodes: int = 1
    """Boxes that hold the model together, each with a recipe of its own."""
    node: int = 0
    """Which of them this recipe is for; 0 leads, and is the one that clients talk to."""
    notes: tuple[str, ...] = ()
    """What was left out on purpose, or must be known before running it."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The command, with the key file still a placeholder."""
        command = [self.program]
        for setting in self.arguments:
            command.append(setting.name)
            if setting.value is not None:
                command.append(setting.value)
        return tuple(command)

    @property
    def takes_key(self) -> bool:
        """Whether the engine is told a key; one that is not serves whoever reaches its port."""
        return any(setting.value in (KEY_FILE, KEY, KEY_CONFIG) for setting in (*self.arguments, *self.environment))

    @property
    def passed(self) -> tuple[str, ...]:
        """Variables of the person's own environment that the engine is given."""
        return tuple(setting.name for setting in self.environment if setting.value == PASSED_VALUE)

    @property
    def base_url(self) -> str:
        return f"http://{self.host}:{self.port}"
