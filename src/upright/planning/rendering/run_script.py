"""Recipe -> a shell script that starts the engine's container with docker or podman."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from upright.facts.records.recipe import PASSED_VALUE, UNKNOWN_FOLDER, Recipe
from upright.planning.rendering import script
from upright.planning.rendering.container import HUB_MOUNT, MODEL_MOUNT, Container, container_of
from upright.planning.rendering.quoting import array_word, one_line, shell_path, shell_word, volume_source
from upright.planning.rendering.run_options import RunPaths, run_options
from upright.planning.rendering.shell import draft_switch

_PLACES = RunPaths("$MODEL_FOLDER", "$CACHE_FOLDER", "$KEY_FILE", "$(id -u):$(id -g)", "$PORT")


def run_script(recipe: Recipe, runtime: str, *, drafted: Recipe | None = None, draft: str | None = None) -> str:
    image = recipe.image or "YOUR-IMAGE:TAG"
    inside = container_of(recipe, image)
    lines = script.heading(recipe, f", in a container of {runtime}")
    lines += script.variables(recipe, draft, inside.settings)
    lines += _image(recipe) + _model(inside, filter(None, (recipe.model_path, recipe.draft)))
    lines += ["CACHE_FOLDER=${CACHE_FOLDER:-$HOME/.cache/upright/engines}", *script.key_file(recipe)]
    lines += ['mkdir -p "$CACHE_FOLDER"']
    lines += ["", "options=(", *(f"  {line}" for line in _options(inside, runtime, recipe.gpus)), ")"]
    lines += script.arguments("arguments", inside.settings)
    lines += draft_switch(drafted and _inside(drafted, image), draft)
    entry = " ".join(shell_word(word) for word in inside.entrypoint[1:])
    start = " ".join(filter(None, ('"$IMAGE"', entry, '"${arguments[@]}"')))
    return "\n".join([*lines, "", f'exec {runtime} run "${{options[@]}}" {start}', ""])


def _inside(recipe: Recipe, image: str) -> Recipe:
    return recipe.model_copy(update={"arguments": container_of(recipe, image).settings})


def _image(recipe: Recipe) -> list[str]:
    if recipe.image is None:
        return [f"IMAGE=${{IMAGE:?name an image that holds {recipe.engine}, by a tag that stays or by digest}}"]
    about = [f"# {one_line(recipe.image_about)}"] if recipe.image_about else []
    return [*about, f"IMAGE=${{IMAGE:-{shell_word(recipe.image)}}}"]


def _model(inside: Container, wanted: Iterable[str]) -> list[str]:
    mount = inside.mounts[0]
    if mount.target == HUB_MOUNT:
        commands = "; ".join(f"upright fetch {shell_word(name)}" for name in wanted)
        return [one_line(f"# Fetch first, into HF_HOME: {commands}"), "HF_HOME=${HF_HOME:-$HOME/.cache/huggingface}"]
    if mount.source == UNKNOWN_FOLDER:
        return [
            f"MODEL_FOLDER=${{MODEL_FOLDER:?name the folder of the weights on the host}}  # mounted as {MODEL_MOUNT}"
        ]
    folder = shell_path(volume_source(mount.source))
    return [f"MODEL_FOLDER=${{MODEL_FOLDER:-{folder}}}  # on the host; mounted as {MODEL_MOUNT}"]


def _options(inside: Container, runtime: str, gpus: int) -> list[str]:
    on_hub = inside.mounts[0].target == HUB_MOUNT
    places = replace(_PLACES, model_folder="$HF_HOME") if on_hub else _PLACES
    lines: list[str] = []
    for option in run_options(inside, runtime, places, gpus=gpus):
        lines += [f"# {option.why}"] if option.why else []
        lines.append(" ".join(map(_word, option.words)))
    for setting in inside.environment:
        assignment = "" if setting.value == PASSED_VALUE else f"={array_word(setting.value or '')}"
        lines += [f"# {script.comment(setting)}", f"--env {setting.name}{assignment}"]
    return lines


def _word(word: str) -> str:
    return f'"{word}"' if "$" in word else shell_word(word)
