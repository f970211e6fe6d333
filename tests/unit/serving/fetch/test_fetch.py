"""fetch() against a real HTTP hub on loopback: exactly the files needed, verified, resumed, and in its place."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import huggingface_hub
import pytest

from tests.loopback_hub import COMMIT, LoopbackHub, sha256
from tests.unit.serving.fetch.conftest import CHUNK_BYTES, REPO, client
from upright.base.errors import FetchError, ReadError, UsageError
from upright.models.reading.cache import repository_folder
from upright.serving.fetch import FetchProgress, fetch, fetch_need, find_weights
from upright.serving.fetch.layout import cache_layout
from upright.serving.fetch.partial import PartialFile

COMPANIONS = {
    "chat_template.jinja", "config.json", "merges.txt", "model.safetensors.index.json", "modeling_kimi.py",
    "tiktoken.model", "tokenizer_config.json",
}  # fmt: skip
SHARDS = [f"model-0000{part}-of-00003.safetensors" for part in (1, 2, 3)]


def same(folder: Path, repository: Path) -> list[str]:
    """The names in a folder whose bytes are those of the repository."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return sorted(name for name in names if (folder / name).read_bytes() == (repository / name).read_bytes())


def test_safetensors_with_all_that_engines_open_and_nothing_else(hub: LoopbackHub, repository: Path) -> None:
    done = fetch(REPO, hub=client(hub))
    assert same(Path(done.path), repository) == sorted([*COMPANIONS, *SHARDS])
    assert {path.name for path in Path(done.path).iterdir()} == {*COMPANIONS, *SHARDS}
    assert done.need.revision == COMMIT
    assert done.need.size_bytes == sum((repository / name).stat().st_size for name in [*COMPANIONS, *SHARDS])
    assert hub.weight_bytes_sent == sum((repository / name).stat().st_size for name in SHARDS)
    assert done.unverified == ()


def test_one_quant_of_a_gguf_repository(hub: LoopbackHub, repository: Path) -> None:
    done = fetch(f"{REPO}:IQ3_K", hub=client(hub))
    assert done.path.endswith("IQ3_K/Kimi-IQ3_K-00001-of-00002.gguf")
    assert len(same(Path(done.path).parents[1], repository)) == 2
    assert hub.weight_bytes_sent == 400_000


def test_huggingface_hub_finds_what_was_fetched(hub: LoopbackHub) -> None:
    done = fetch(REPO, hub=client(hub))
    assert huggingface_hub.snapshot_download(REPO, local_files_only=True) == done.path
    assert huggingface_hub.try_to_load_from_cache(REPO, "config.json") == f"{done.path}/config.json"
    scanned = huggingface_hub.scan_cache_dir()
    assert [repo.repo_id for repo in scanned.repos] == [REPO]
    assert not scanned.warnings


def test_what_huggingface_hub_fetched_is_not_fetched_again(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.redirect = False
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    huggingface_hub.hf_hub_download(REPO, SHARDS[0], endpoint=hub.hub_url)
    before = hub.weight_bytes_sent
    done = fetch(REPO, hub=client(hub))
    assert [file.state for file in done.need.files if file.name in SHARDS] == ["here", "absent", "absent"]
    assert hub.weight_bytes_sent - before == sum(file.size_bytes for file in done.need.files if file.name in SHARDS[1:])


def test_a_second_fetch_brings_nothing(hub: LoopbackHub) -> None:
    fetch(REPO, hub=client(hub))
    before = hub.weight_bytes_sent
    assert fetch(REPO, hub=client(hub)).need.missing_bytes == 0
    assert hub.weight_bytes_sent == before


def test_into_a_plain_folder(hub: LoopbackHub, repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    done = fetch(REPO, folder=folder, hub=client(hub))
    assert done.path == str(folder)
    assert same(folder, repository) == sorted([*COMPANIONS, *SHARDS])
    assert not [path for path in folder.iterdir() if path.is_symlink() or path.is_dir()]
    assert not repository_folder(REPO).exists()


@pytest.mark.parametrize("plain", [False, True], ids=["cache with --verify", "plain folder"])
def test_a_file_that_rotted_on_the_disk_is_fetched_again(
    hub: LoopbackHub, repository: Path, tmp_path: Path, plain: bool
) -> None:
    folder = tmp_path / "plain" if plain else None
    done = fetch(REPO, folder=folder, hub=client(hub))
    rotten = (Path(done.path) / SHARDS[1]).resolve()
    rotten.write_bytes(bytes(rotten.stat().st_size))
    again = fetch(REPO, folder=folder, hub=client(hub), verify=not plain)
    assert again.refetched_files == 1
    assert sha256(Path(done.path) / SHARDS[1]) == sha256(repository / SHARDS[1])


def test_the_token_goes_to_the_hub_and_to_no_other_host(hub: LoopbackHub) -> None:
    hub.token = "hf_secret"
    fetch(REPO, hub=client(hub, token="hf_secret"))
    stores = [entry for entry in hub.seen if entry.server == "store"]
    assert stores
    assert not [entry for entry in stores if entry.authorization]
    assert all(entry.authorization == hub.bearer for entry in hub.seen if entry.server == "hub")


def test_wrong_bytes_are_noticed_and_fetched_again(hub: LoopbackHub, repository: Path) -> None:
    hub.wrong_first = 1
    done = fetch(f"{REPO}:Q8_0", hub=client(hub))
    assert done.refetched_files == 1
    assert len(same(Path(done.path).parents[1], repository)) == 2


def test_bytes_that_stay_wrong_are_told_and_get_no_name(hub: LoopbackHub, repository: Path) -> None:
    hub.wrong_first = 1000
    with pytest.raises(FetchError, match=r"wrong bytes 2 times.*hub says") as told:
        fetch(f"{REPO}:Q8_0", hub=client(hub))
    assert "proxy" in str(told.value.hint)
    assert not list(repository_folder(REPO).glob("snapshots/*/*/*.gguf"))
    hub.wrong_first = 0
    done = fetch(f"{REPO}:Q8_0", hub=client(hub))
    assert len(same(Path(done.path).parents[1], repository)) == 2


def test_a_file_that_cannot_be_opened_is_not_held_for_ever(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(partial: PartialFile) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(PartialFile, "open", full)
        with pytest.raises(FetchError, match="No space left") as told:
            fetch(f"{REPO}:Q8_0", hub=client(hub))
    again = fetch(f"{REPO}:Q8_0", hub=client(hub))
    assert again.need.missing_bytes > 0, "the same process may try again"
    assert told.value.__traceback__ is not None, "though the failure, and all that it holds, is still there"


def test_cut_and_busy_connections_are_taken_up_where_they_broke(hub: LoopbackHub, repository: Path) -> None:
    hub.drop_every, hub.busy_first = 3, 2
    done = fetch(REPO, hub=client(hub))
    assert done.retries > 3
    assert len(same(Path(done.path), repository)) == len(COMPANIONS) + len(SHARDS)


def test_a_connection_that_falls_silent_is_dropped_and_asked_again(hub: LoopbackHub, repository: Path) -> None:
    hub.stalls_first = 2
    done = fetch(f"{REPO}:Q8_0", hub=client(hub, silence_seconds=0.3))
    assert done.retries >= 2
    assert len(same(Path(done.path).parents[1], repository)) == 2


def test_a_hub_that_is_always_busy_is_given_up_and_what_came_stays(hub: LoopbackHub) -> None:
    fetched = threading.Event()

    def busy_from_now_on(progress: FetchProgress) -> None:
        if progress.done_bytes > 0 and not fetched.is_set():
            hub.bytes_per_second, hub.busy_first = None, 10**6
            fetched.set()

    hub.bytes_per_second = 200_000
    with pytest.raises(ReadError, match="the server answers 429, 12 times in a row"):
        fetch(REPO, hub=client(hub), on_progress=busy_from_now_on)
    hub.busy_first = 0
    assert fetch_need(REPO, hub=client(hub)).here_bytes > 0


@pytest.mark.parametrize(
    ("fault", "source", "message", "hint"),
    [
        ({"gated": True}, REPO, r"does not let us read .* \(403\): Access to this model is restricted", "HF_TOKEN"),
        ({"token": "hf_other"}, REPO, r"\(401\): Invalid credentials", "HF_TOKEN"),
        ({}, f"{REPO}@v9", "the hub has no moonshotai/Kimi@v9", "spelling"),
        ({}, f"{REPO}:Q2_K", "no quantisation Q2_K", "IQ3_K"),
        ({"busy_first": 10**6}, REPO, "the server answers 429, 12 times", "later"),
    ],
)
def test_refusals_of_the_hub(hub: LoopbackHub, fault: dict[str, object], source: str, message: str, hint: str) -> None:
    for name, value in fault.items():
        setattr(hub, name, value)
    with pytest.raises(ReadError, match=message) as told:
        fetch(source, hub=client(hub))
    assert hint in str(told.value.hint)


def test_words_that_name_no_repository(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is on this disk already"):
        fetch(str(tmp_path))
    with pytest.raises(UsageError, match="no repository and not in the catalogue"):
        fetch("nonsense")


def test_a_name_of_the_catalogue_is_its_first_artifact(hub: LoopbackHub) -> None:
    assert fetch_need("kimi-k2.6", hub=client(hub)).repository == "moonshotai/Kimi-K2.6"


def test_two_fetches_of_the_same(hub: LoopbackHub) -> None:
    hub.bytes_per_second = 300_000
    begun, seen = threading.Event(), list[str]()

    def second(progress: FetchProgress) -> None:
        if progress.done_bytes and not begun.is_set():
            begun.set()
            with pytest.raises(FetchError, match="is being fetched by another process") as told:
                fetch(f"{REPO}:Q8_0", hub=client(hub))
            seen.append(str(told.value.hint))

    fetch(f"{REPO}:Q8_0", hub=client(hub), on_progress=second)
    assert seen == ["wait until it is done"]


def test_a_file_that_huggingface_hub_is_fetching_is_left_to_it(hub: LoopbackHub, repository: Path) -> None:
    from huggingface_hub.utils import WeakFileLock

    locks = cache_layout(REPO, COMMIT, "main").locks
    locks.mkdir(parents=True)
    with (
        WeakFileLock(locks / f"{sha256(repository / SHARDS[1])}.lock"),
        pytest.raises(FetchError, match=f"{SHARDS[1]} is being fetched by another process"),
    ):
        fetch(REPO, hub=client(hub))


def test_stopped_twenty_times_and_no_byte_twice(hub: LoopbackHub, repository: Path) -> None:
    """Ctrl-C reaches the loop that shows progress; all that the hub sent stays."""
    hub.bytes_per_second = 1_000_000
    stops = 0
    while True:
        began = fetch_need(REPO, hub=client(hub)).here_bytes

        def stop(progress: FetchProgress, began: int = began) -> None:
            if progress.done_bytes > began + 20_000:
                raise KeyboardInterrupt

        try:
            done = fetch(REPO, hub=client(hub), connections=2, on_progress=stop if stops < 20 else None)
        except KeyboardInterrupt:
            stops += 1
        else:
            break
    weights = sum((repository / name).stat().st_size for name in SHARDS)
    assert stops >= 3
    assert same(Path(done.path), repository) == sorted([*COMPANIONS, *SHARDS])
    assert hub.weight_bytes_sent - weights <= stops * CHUNK_BYTES


def test_a_pinned_commit_and_a_branch(hub: LoopbackHub) -> None:
    pinned = fetch(f"{REPO}@{COMMIT}:Q8_0", hub=client(hub))
    assert not (repository_folder(REPO) / "refs").exists()
    assert find_weights(f"{REPO}@{COMMIT}:Q8_0") == Path(pinned.path)
    fetch(f"{REPO}@v1:Q8_0", hub=client(hub))
    assert (repository_folder(REPO) / "refs/v1").read_text() == COMMIT
    assert find_weights(f"{REPO}@v1:Q8_0") == Path(pinned.path)


def test_weights_are_found_only_when_all_are_here(hub: LoopbackHub) -> None:
    assert find_weights(REPO) is None
    done = fetch(f"{REPO}:Q8_0", hub=client(hub))
    assert find_weights(f"{REPO}:Q8_0", COMMIT) == Path(done.path)
    assert find_weights(f"{REPO}:Q8_0", "f" * 40) is None
    assert find_weights(f"{REPO}:IQ3_K") is None
    Path(done.path.replace("00001-of", "00002-of")).unlink()
    assert find_weights(f"{REPO}:Q8_0") is None


def test_the_same_content_of_another_revision_is_linked(hub: LoopbackHub) -> None:
    done = fetch(f"{REPO}:Q8_0", hub=client(hub))
    Path(done.path).unlink()
    before = hub.weight_bytes_sent
    assert Path(fetch(f"{REPO}:Q8_0", hub=client(hub)).path).is_file()
    assert hub.weight_bytes_sent == before
