"""The engine of a recipe inside a container: image, mounts, and a start that keeps the key out of sight.

Every container target is made from this: no capabilities, a read-only root, the model read-only, the key as a mounted
file, the port not open to the world. Caches of compiled kernels live in a volume, or every start would compile anew.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from upright.base.errors import UsageError
from upright.engines import engine_named
from upright.engines.contract import Engine
from upright.facts.records.recipe import KEY, KEY_CONFIG, KEY_FILE, Recipe, Setting
from upright.planning.rendering.quoting import one_line
from upright.planning.rendering.writable import program_inside

KEY_MOUNT = "/run/secrets/upright-key"
KEY_CONFIG_PATH = "/tmp/upright-key.yaml"  # noqa: S108  inside the container, on its own tmpfs
MODEL_MOUNT = "/model"
HUB_MOUNT = "/hub"
CACHE_MOUNT = "/cache"
CACHE_FOLDER = "~/.cache/upright/engines"
SHARED_MEMORY = "32g"
_LONGEST_SLUG = 50
ROUTER = "smg"
ALL_ADDRESSES = "0.0.0.0"  # noqa: S104  inside the container only
ON_LOOPBACK = "the port is published on loopback alone"

_CACHED = re.compile(r"(?P<repository>.*/models--[^/]+)/(?P<below>snapshots/.+)")
_EXEC = 'exec "$0" "$@"'
_START = {
    "environment": f'export {{name}}="$(cat {KEY_MOUNT})"; {_EXEC}',
    "config": f'umask 077; printf "api-key: %s\\n" "$(cat {KEY_MOUNT})" > {KEY_CONFIG_PATH}; {_EXEC}',
}


class Mount(NamedTuple):
    """A folder of the host inside the container."""

    source: str
    target: str
    read_only: bool
    why: str


class Container(NamedTuple):
    """What every container target writes down in its own words."""

    image: str
    image_about: str | None
    entrypoint: tuple[str, ...]
    settings: tuple[Setting, ...]
    environment: tuple[Setting, ...]
    mounts: tuple[Mount, ...]
    host_network: bool = False
    """A router reaches boxes as its machine does, tunnels on its loopback too."""
    memory_limit_bytes: int | None = None
    """What it may take of the memory that GPU and system share; None for no limit."""

    @property
    def shared_memory(self) -> str:
        """Of /dev/shm, which is the same memory where GPU and system share one."""
        return SHARED_MEMORY if self.memory_limit_bytes is None else "8g"

    @property
    def words(self) -> tuple[str, ...]:
        """What follows the image."""
        return (*self.entrypoint[1:], *argument_words(self.settings))


def container_of(recipe: Recipe, image: str | None = None, *, reached: str = ON_LOOPBACK) -> Container:
    """`reached` says who gets to the port, though the engine binds every address."""
    chosen = image or recipe.image
    _nvidia_only(recipe)
    if chosen is None:
        raise UsageError(
            f"no image of {recipe.engine} is known", hint="name yours: --image NAME:TAG (a tag that stays, or a digest)"
        )
    mount, path = _model(recipe)
    by_module = bool(recipe.arguments) and recipe.arguments[0].name == "-m"
    inside = recipe.image_program if chosen == recipe.image else None
    program = "python3" if by_module else inside or program_inside(PurePosixPath(recipe.program).name)
    return Container(
        image=chosen,
        image_about=one_line(recipe.image_about) if recipe.image_about else None,
        entrypoint=_entrypoint(recipe, program),
        settings=tuple(_inside(setting, recipe, path, reached) for setting in recipe.arguments),
        environment=(
            *(setting for setting in recipe.environment if setting.value != KEY),
            *_folders(recipe),
        ),
        host_network=recipe.engine == ROUTER,
        memory_limit_bytes=recipe.memory_limit_bytes,
        mounts=(mount, Mount(CACHE_FOLDER, CACHE_MOUNT, False, "compiled kernels and graphs, kept between starts")),
    )


def _nvidia_only(recipe: Recipe) -> None:
    """How a container gets GPUs is written for NVIDIA's toolkit, and the images that are known are built for it."""
    silicon = recipe.circumstances.compute_capability if recipe.circumstances else None
    if recipe.gpus and silicon and not silicon[0].isdigit():
        raise UsageError(
            f"containers are written for NVIDIA GPUs, and this recipe is for {silicon}",
            hint="--to shell or systemd: the engine as it is installed there",
        )


def argument_words(settings: Iterable[Setting]) -> tuple[str, ...]:
    return tuple(word for setting in settings for word in (setting.name, setting.value) if word is not None)


def is_path(model_path: str) -> bool:
    """A file or folder of the host, not a repository."""
    return model_path.startswith(("/", "./", "../", "~"))


def slug(recipe: Recipe) -> str:
    return slug_of(recipe.served_name)


def slug_of(name: str) -> str:
    """Letters, digits, dots and dashes, at most 50: what units, containers and files are all named by."""
    return re.sub(r"[^a-z0-9.-]", "-", name.lower())[:_LONGEST_SLUG].strip("-.") or "model"


def label_of(slug: str) -> str:
    """As Kubernetes names things (RFC 1035): no dots, and a letter first."""
    name = slug.replace(".", "-")
    return name if name[0].isalpha() else f"model-{name}"


def _entrypoint(recipe: Recipe, program: str) -> tuple[str, ...]:
    if recipe.key_way == "file" and not recipe.packages:
        return (program,)
    name = next((setting.name for setting in recipe.environment if setting.value == KEY), "")
    start = _START.get(recipe.key_way, _EXEC).replace("{name}", name)
    return ("/bin/sh", "-c", _installing(recipe.packages) + start, program)


def _installing(packages: Sequence[str]) -> str:
    """Into the folder of caches: the root is read-only, and what is there already is not fetched again."""
    if not packages:
        return ""
    wanted = " ".join(shlex.quote(package) for package in packages)
    where = f"export PYTHONUSERBASE={CACHE_MOUNT}/python PIP_BREAK_SYSTEM_PACKAGES=1"
    return f"{where}; pip install -q --user {wanted} || exit 1; "


def _model(recipe: Recipe) -> tuple[Mount, str]:
    """What is mounted, and how the engine names it inside."""
    path = recipe.model_path
    if not is_path(path):
        why = "downloaded weights, read-only: fetch them first with `upright fetch`"
        return Mount("~/.cache/huggingface", HUB_MOUNT, True, why), path
    if in_cache := _CACHED.fullmatch(path):
        # A snapshot of the hub cache is links into its repository's blobs: both must be there.
        why = "the model's repository in the hub cache, read-only"
        return Mount(in_cache["repository"], MODEL_MOUNT, True, why), f"{MODEL_MOUNT}/{in_cache['below']}"
    if PurePosixPath(path).suffix == ".gguf":
        folder = PurePosixPath(path).parent
        return Mount(
            str(folder), MODEL_MOUNT, True, "the model, read-only"
        ), f"{MODEL_MOUNT}/{PurePosixPath(path).name}"
    return Mount(path, MODEL_MOUNT, True, "the model, read-only"), MODEL_MOUNT


def _folders(recipe: Recipe) -> tuple[Setting, ...]:
    variables = [
        Setting(name="HOME", value=CACHE_MOUNT, reason="the root is read-only: caches go to their own folder"),
        Setting(name="USER", value="upright", reason="PyTorch names its cache after the user and asks for one"),
    ]
    if not is_path(recipe.model_path):
        variables += [
            Setting(name="HF_HOME", value=HUB_MOUNT, reason="where the weights are mounted"),
            Setting(
                name="HF_MODULES_CACHE",
                value=f"{CACHE_MOUNT}/modules",
                reason="a model's own code is copied before it is run, and the mounted folder is read-only",
                source="transformers, utils/hub.py: HF_MODULES_CACHE is HF_HOME/modules unless set",
            ),
            Setting(name=_offline(recipe.engine), value="1", reason="nothing is fetched behind your back"),
        ]
    return tuple(variables)


def _offline(engine: str) -> str:
    return engine_named(engine).offline_variable if engine != ROUTER else Engine.offline_variable


def _inside(setting: Setting, recipe: Recipe, path: str, reached: str) -> Setting:
    if setting.name == "--host" and recipe.engine != ROUTER:
        return setting.model_copy(update={"value": ALL_ADDRESSES, "reason": f"inside the container; {reached}"})
    if setting.value is None:
        return setting
    known = {recipe.model_path: path, KEY_FILE: KEY_MOUNT, KEY_CONFIG: KEY_CONFIG_PATH}
    return setting.model_copy(update={"value": known.get(setting.value, setting.value)})
