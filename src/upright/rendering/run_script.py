"""Recipe -> a shell script that starts the engine's container with docker or podman."""

from __future__ import annotations

from upright.records.recipe import Recipe
from upright.rendering import script
from upright.rendering.container import HUB_MOUNT, KEY_MOUNT, MODEL_MOUNT, SHARED_MEMORY, Container, in_container
from upright.rendering.shell import optional
from upright.rendering.text import one_line, shell_path, shell_word

_GPUS = {"docker": "--gpus all", "podman": "--device nvidia.com/gpu=all"}
_GPUS_WHY = {
    "docker": "every GPU, by the NVIDIA container toolkit",
    "podman": "every GPU, by its CDI name (nvidia-ctk cdi generate)",
}
_USER = {
    # Guard: without capabilities not even root reads a file that another user owns, such as the key.
    "docker": ("# as you: the key and the caches are yours", '--user "$(id -u):$(id -g)"'),
    "podman": (),  # rootless: root inside is you outside
}


def run_script(recipe: Recipe, runtime: str, *, drafted: Recipe | None = None, draft: str | None = None) -> str:
    image = recipe.image or "YOUR-IMAGE:TAG"
    inside = in_container(recipe, image)
    lines = script.heading(recipe, f", in a container of {runtime}")
    lines += script.variables(recipe.model_copy(update={"arguments": inside.settings}), draft)
    lines += _image(recipe) + _model(inside)
    lines += ["CACHE_FOLDER=${CACHE_FOLDER:-$HOME/.cache/upright/engines}", *script.key_file()]
    lines += ['mkdir -p "$CACHE_FOLDER"']
    lines += ["", "options=(", *(f"  {line}" for line in _options(inside, runtime)), ")"]
    lines += script.arguments("arguments", inside.settings)
    lines += optional(drafted and _inside(drafted, image), draft)
    entry = " ".join(shell_word(word) for word in inside.entrypoint[1:])
    start = " ".join(filter(None, ('"$IMAGE"', entry, '"${arguments[@]}"')))
    return "\n".join([*lines, "", f'exec {runtime} run "${{options[@]}}" {start}', ""])


def _inside(recipe: Recipe, image: str) -> Recipe:
    return recipe.model_copy(update={"arguments": in_container(recipe, image).settings})


def _image(recipe: Recipe) -> list[str]:
    if recipe.image is None:
        return [f"IMAGE=${{IMAGE:?name an image that holds {recipe.engine}, by a tag that stays or by digest}}"]
    about = [f"# {one_line(recipe.image_about)}"] if recipe.image_about else []
    return [*about, f"IMAGE=${{IMAGE:-{shell_word(recipe.image)}}}"]


def _model(inside: Container) -> list[str]:
    mount = inside.mounts[0]
    if mount.target == HUB_MOUNT:
        return ["HF_HOME=${HF_HOME:-$HOME/.cache/huggingface}  # fetch the model into it first: hf download REPOSITORY"]
    return [f"MODEL_FOLDER=${{MODEL_FOLDER:-{shell_path(mount.source)}}}  # on the host; mounted as {MODEL_MOUNT}"]


def _options(inside: Container, runtime: str) -> list[str]:
    mount = inside.mounts[0]
    folder = "$HF_HOME" if mount.target == HUB_MOUNT else "$MODEL_FOLDER"
    label = ",Z" if runtime == "podman" else ""
    lines = [
        "--rm --init",
        *_USER[runtime],
        f"# {_GPUS_WHY[runtime]}",
        _GPUS[runtime],
        "# clients on this machine only; put a proxy with TLS before it for others",
        '--publish "127.0.0.1:$PORT:$PORT"',
        "# ranks share memory through it; --ipc=host would share the whole machine's",
        f"--shm-size {SHARED_MEMORY} --ulimit memlock=-1",
        "# nothing that an engine does not need",
        "--cap-drop ALL --security-opt no-new-privileges --read-only --tmpfs /tmp:exec",
        f"# {mount.why}",
        f'--volume "{folder}:{mount.target}:ro"',
        f"# {inside.mounts[1].why}",
        f'--volume "$CACHE_FOLDER:{inside.mounts[1].target}"',
        "# the key as a file: it is in no listing and in no `inspect`",
        f'--volume "$KEY_FILE:{KEY_MOUNT}:ro{label}"',
        f"--entrypoint {shell_word(inside.entrypoint[0])}",
    ]
    for setting in inside.environment:
        lines += [f"# {script.comment(setting)}", f"--env {setting.name}={shell_word(setting.value or '')}"]
    return lines
