"""Lines that engines really wrote, each with where it was seen."""
# ruff: noqa: E501  recorded lines are as long as they are

from __future__ import annotations

import pytest

from upright.engines.log_progress import Pull, lines, progress_of_line

VLLM_9 = "https://github.com/vllm-project/vllm/issues/38820"
VLLM_109 = "https://github.com/vllm-project/vllm/issues/6746"
VLLM_RANK = "https://github.com/castorini/rank_llm/pull/426"
VLLM_49 = "https://github.com/vllm-project/vllm/pull/51910"
VLLM_PIECES = "https://github.com/vllm-project/vllm/pull/27521"
VLLM_MOJIBAKE = "https://github.com/vllm-project/vllm/pull/33756"
VLLM_HUMMING = "https://github.com/vllm-project/vllm/pull/46389"
VLLM_OLD = "https://github.com/vllm-project/vllm/pull/11349"
SGLANG_KIMI = "https://github.com/sgl-project/sglang/issues/15608"
SGLANG_GRAPHS = "https://github.com/sgl-project/sglang/pull/17392"
SGLANG_TP8 = "https://github.com/sgl-project/sglang/pull/11716"
SGLANG_V25 = "https://github.com/sgl-project/sglang/issues/1479"
LLAMA_11699 = "https://github.com/ggml-org/llama.cpp/pull/11699"
LLAMA_B11669 = "llama.cpp b11669, run on this project's tiny model"
IK = "ik_llama.cpp 8337e4cd, run on a tiny model"

BARS = [
    (VLLM_9, "Loading safetensors checkpoint shards:  56% Completed | 5/9 [00:13<00:11,  2.87s/it]", "weights", (5, 9), 56, 13, 11),
    (VLLM_109, "Loading safetensors checkpoint shards:  72% Completed | 78/109 [00:19<00:07,  4.18it/s]", "weights", (78, 109), 72, 19, 7),
    (VLLM_RANK, "Loading safetensors checkpoint shards:   0% Completed | 0/3 [00:00<?, ?it/s]", "weights", (0, 3), 0, 0, None),
    (VLLM_RANK, "Loading safetensors checkpoint shards:  33% Completed | 1/3 [00:24<00:49, 24.61s/it]", "weights", (1, 3), 33, 24, 49),
    (VLLM_49, "Loading safetensors checkpoint shards:  57% Completed | 28/49 [08:21<05:57, 17.02s/it]", "weights", (28, 49), 57, 501, 357),
    (SGLANG_KIMI, "Multi-thread loading shards:  16% Completed | 10/62 [03:36<31:16, 36.08s/it]", "weights", (10, 62), 16, 216, 1876),
    (SGLANG_V25, "Loading safetensors checkpoint shards:   7% Completed | 4/55 [00:25<05:40,  6.67s/it]", "weights", (4, 55), 7, 25, 340),
    (VLLM_PIECES, "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   1%|▏         | 1/67 [00:01<01:33,  1.42s/it]", "graphs", (1, 67), 1, 1, 93),
    (VLLM_HUMMING, "Capturing CUDA graphs (decode, FULL):  11%|█▏        | 4/35 [00:00<00:02, 15.26it/s]", "graphs", (4, 35), 11, 0, 2),
    (VLLM_MOJIBAKE, "Capturing CUDA graphs (decode, FULL):   7%|â–‹         | 6/83 [00:00<00:06, 11.09it/s]", "graphs", (6, 83), 7, 0, 6),
    (VLLM_OLD, "Capturing CUDA graph shapes: 100%|██████████| 35/35 [00:13<00:00,  2.51it/s]", "graphs", (35, 35), 100, 13, 0),
    (SGLANG_GRAPHS, "Capturing batches (bs=24 avail_mem=21.80 GB):  12%|█▎        | 1/8 [00:05<00:39,  5.62s/it]", "graphs", (1, 8), 12, 5, 39),
]  # fmt: skip

WORDS = [
    (LLAMA_11699, "0.00.189.952 I load_tensors: loading model tensors, this can take a while... (mmap = true)", "weights"),
    (LLAMA_B11669, "0.00.055.775 I load_tensors: loading model tensors, this can take a while... (load_mode = mmap)", "weights"),
    (LLAMA_B11669, "0.00.078.451 I cmn  common_init_: warming up the model with an empty run - please wait ... (--no-warmup to disable)", "warmup"),
    (SGLANG_TP8, "[2025-10-16 09:06:10 TP0] Load weight begin. avail mem=137.34 GB", "weights"),
    (SGLANG_TP8, "[2025-10-16 09:06:22 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=11.82 GB", "graphs"),
    (VLLM_9, "(Worker_TP0 pid=34322) INFO 05-06 21:00:16 [backends.py:1128] Dynamo bytecode transform time: 3.54 s", "compile"),
    (VLLM_9, "(Worker_TP0 pid=34322) INFO 05-06 21:00:16 [backends.py:1069] Using cache directory: /home/bobos/.cache/vllm/torch_compile_cache/7b98594710/rank_0_0/backbone for vLLM's torch.compile", "compile"),
    (VLLM_OLD, "INFO 12-19 22:58:41 model_runner.py:1535] Graph capturing finished in 14 secs, took 0.21 GiB", "warmup"),
]  # fmt: skip

ABOUT_SOMETHING_ELSE = [
    "0.00.106.902 I srv  llama_server: listening on http://127.0.0.1:18777",
    "(APIServer pid=1) INFO 11-14 20:00:00 [launcher.py:46] Route: /v1/chat/completions, Methods: POST",
    "Processed prompts: 0it [00:00, ?it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]",
    "  0%|          | 0/8 [00:00<?, ?it/s]",
    "[2025-10-16 09:06:22 TP3] Memory pool end. avail mem=11.87 GB",
    "(Worker_TP0 pid=34322) INFO 05-06 20:59:59 [gpu_model_runner.py:4879] Model loading took 12.66 GiB memory and 31.657031 seconds",
    ".",
    "",
]  # fmt: skip


@pytest.mark.parametrize(("source", "line", "phase", "pieces", "percent", "spent", "left"), BARS)
def test_a_bar(source, line, phase, pieces, percent, spent, left):
    said = progress_of_line(f"(Worker_TP0 pid=34322) {line}")
    assert said is not None, source
    assert said.phase == phase
    assert (said.done, said.of, said.percent, said.seconds, said.seconds_left) == (*pieces, percent, spent, left)


@pytest.mark.parametrize(("source", "line", "phase"), WORDS)
def test_a_phase_without_a_figure(source, line, phase):
    said = progress_of_line(line)
    assert said is not None, source
    assert (said.phase, said.percent, said.seconds_left) == (phase, None, None)


@pytest.mark.parametrize("line", ABOUT_SOMETHING_ELSE)
def test_what_is_not_progress(line):
    assert progress_of_line(line) is None


def test_dots_are_percent():
    """llama.cpp and its fork print a dot for each percent of the bytes read."""
    said = progress_of_line("." * 37)
    assert said is not None
    assert (said.phase, said.percent) == ("weights", 37)
    assert progress_of_line("." * 101) is None


def test_a_bar_that_redraws_itself_is_lines():
    text = "\rLoading safetensors checkpoint shards:  33% Completed | 1/3 [00:24<00:49, 24.61s/it]\n\rLoading saf"
    assert [progress_of_line(line) is not None for line in lines(text)] == [True, False]


def test_docker_tells_layers_apart():
    """https://github.com/apache/incubator-kie-kogito-images/pull/1572"""
    pull = Pull()
    for line in ("8129bd43236e: Pulling fs layer", "c6eb142c2e47: Pulling fs layer", "0e74c0f56bff: Pulling fs layer"):
        said = pull.take(line)
    assert said is not None
    assert (said.done, said.of, said.percent) == (None, 3, None)
    assert pull.take("414cef2342d3: Waiting") is None
    said = pull.take("8129bd43236e: Pull complete")
    assert said is not None
    assert (said.done, said.of, said.percent) == (1, 3, 33.3)


def test_podman_names_a_layer_once_and_says_no_more():
    """podman 4.3.1, without a terminal."""
    pull = Pull()
    said = pull.take("Copying blob sha256:7762a4c91e3a8914118f1309aa283a1b13f4c2faff29bce2a685045d71bbd04a")
    assert said is not None
    assert (said.phase, said.of, said.percent, said.seconds_left) == ("pull", 1, None, None)
    assert pull.take("Writing manifest to image destination") is None
