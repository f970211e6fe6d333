"""The text of a raw log line, and the process that printed it.

Eight ranks write into one file; containers, journals and terminals each put something of their own before the line.
"""

from __future__ import annotations

import re

from upright.base.bounds.bounded_json import parse_json

LONGEST_BYTES = 4096
"""A longer line is read by its beginning and its end: no engine's own line is as long, one that quotes a prompt is."""
_BEGINNING_BYTES = 3072
_MOST_OVERWRITTEN = 100
_CUT = " … ".encode()
_DIGITS = b"0123456789"
_COLOURS = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_STRIPPED_COLOURS = re.compile(r"\[(?:\d{1,3};)*\d{1,3}m")
"""A terminal's colours after somebody's editor took the escape character out of them."""
_ENVELOPES = re.compile(
    r"^(?:[\w.-]+ +\| ?"  # docker compose: `vllm-1  | `
    r"|\[(?:pod|job)/[\w./-]+\] "  # kubectl logs --prefix
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ (?:[\w@.-]+\[\d+\]|kernel): "  # journalctl
    r"|\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-][\d:]+) \S+ (?:[\w@.-]+\[\d+\]|kernel): "  # journalctl -o short-iso
    r"|\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-][\d:]+) (?:stdout|stderr) [FP] "  # kubelet
    r"|\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d) (?=\S)"  # docker logs -t
    r"|\[ *\d+\.\d{6}\] "  # dmesg
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "  # dmesg -T
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+ \[\w+\] \(\w+\) "  # lemonade
    r"|[>▎│┃] ?)"  # quoted
)
_RANKS = (
    re.compile(r"^\((?P<name>[\w-]+)(?: \w+=\d+)* pid=(?P<pid>\d+)(?:, ip=[\d.]+)?\) ?"),
    # vLLM: (Worker_TP3 pid=123), (VllmWorker rank=1 pid=123), (VllmWorker-0 pid=123)
    # Ray: (RayWorkerWrapper pid=356, ip=10.0.0.1)
    re.compile(r"^(?P<rank>\[rank\d+\]):? ?"),  # torch
    re.compile(
        r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?P<words>(?: [A-Z]{2,3}\d+)+)\] ?"
    ),  # SGLang: [2026-06-28 13:34:12 TP7]
    re.compile(r"^\S+:\d+:\d+ \[(?P<gpu>\d+)\] (?=.*NCCL)"),  # NCCL: host:pid:tid [gpu]
)
_LEVEL = re.compile(
    r"^(?:(?:ERROR|WARNING|INFO|CRITICAL|DEBUG) \d\d-\d\d [\d:.,]+ (?:\[[^\]]*\]|\S+\]) ?"  # vLLM
    r"|\[(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?: [A-Z]{2,3}\d+)*\] ?"  # SGLang
    r"|\d+\.\d\d\.\d{3}\.\d{3} [A-Z] "  # llama.cpp
    r"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]?\d* (?:- )?(?:\[?[\w.]+\]? (?:- )?)?"
    r"\[?(?:ERROR|WARNING|INFO|CRITICAL|DEBUG)\]?:? (?:- )?"  # Python's logging
    r"|(?:ERROR|WARNING|INFO|CRITICAL|DEBUG): +)"  # uvicorn
)
_LOW_LEVEL = re.compile(
    r"^(?:\([^)]*\) ?)*(?:\[[^\]]*\] ?)?(?:WARNING|INFO|DEBUG)\b|^\d+\.\d\d\.\d{3}\.\d{3} [IWD] "
    r"|^.{0,80}\bNCCL INFO "
    r"|^(?!.{0,120}\b(?:ERROR|CRITICAL)\b).{0,80}?(?<!NCCL)[ \[:-](?:WARN(?:ING)?|INFO|DEBUG)[\]:, ]"
    r"|^(?:\S+:\d+: )?\S*[Ww]arning: |^(?:\[rank\d+\]: ?)?\[?W\d\d?-?\d\d[ T]"
)
_OF_A_PROCESS = re.compile(r"^(?:\([^)]*\) ?)*(?:\[rank\d+\]:? ?)?")
_LEVEL_LATER = re.compile(r"^\[(?:WARN(?:ING)?|INFO|DEBUG)\] |^\[transformers\] |\blog_server_r(?:equest)?: ")
"""How libraries and lists of requests begin a line that tells of nothing that ended a program."""
_WITHOUT_LEVEL = re.compile(
    r"^\[(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?: [A-Z]{2,3}\d+)*|[a-z]\w+)\] "
    r"(?!.*(?:(?i:error|exception|traceback|fatal|critical|abort|assert|kill|out of memory|sig(?:quit|term)|hang|stuck)"
    r"|[Tt]imed? ?out|\b(?:[Ff]ailed|[Ff]ailure|[Uu]nable|cannot)\b(?!.{0,40}(?:import|;))))"
)
"""SGLang's log and some libraries' tell no level: what they say and do not call a failure."""
_SETTING = re.compile(r"\b[a-z]\w+=")
_MANY_SETTINGS = 12
_ONE_SETTING = re.compile(r"^\W*(?:export |ENV\w* )?[A-Z][A-Z\d]*_[A-Z\d_]+ ?[=:] ?\S*$|\bcmake\b.* -D[A-Z][A-Z\d_]+=")
"""A variable of the environment, or a flag of a build, and nothing else."""
_GLOG = re.compile(r"^(?:\[rank\d+\]:? ?)?\[?[IWEF]\d{4} \d\d:\d\d:\d\d[\d.]* ")
"""torch's own: `[W1117 21:36:04.060152498 utils.cpp:68] `."""
_FOR_INFORMATION = re.compile(
    r"^(?:\([^)]*\) ?)*(?:INFO|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d \[|^\d+\.\d\d\.\d{3}\.\d{3} [ID] "
)
_GOES_ON = re.compile(
    r"\b[Ii]gnor(?:e|ed|ing)\b|\b[Ss]kipp(?:ed|ing)\b|\b[Ff]all(?:ing|s) ?back\b|\b[Rr]etrying\b|\bnot fatal\b"
    r"|\bwill be (?:used|ignored|disabled)\b|\b[Dd]isabling\b|\b[Dd]eprecat|\b[Uu]sing (?:the )?default"
    r"|\b[Ii]gnore (?:the |import )?error\b|\b[Oo]verrid(?:ing|den)\b|\b[Tt]runcating\b|\bdefaulting to\b"
    r"|\b(?:[Pp]roceeding|[Cc]ontinuing) without\b|(?:may|might|could) (?:lead to|result in|degrade|hurt|slow)"
)
_CONTINUES = re.compile(
    r"\b[Ii]gnore import error\b|\b[Ww]ill ignore (?:the )?error and continue\b|\b[Oo]verriding [\w-]+ "
    r"|\b(?:[Pp]roceeding|[Cc]ontinuing) without\b"
    r"|\bdefaulting to\b|; overriding |\bretrying (?:with|in) |\bfalling back to\b|\b[Tt]runcating the input\b"
)
"""It says what it does instead."""


def without_colours(raw: bytes) -> bytes:
    return _COLOURS.sub(b"", raw) if b"\x1b" in raw else raw


def shortened(raw: bytes) -> bytes:
    """A line of a length that patterns can be tried on, whatever it holds."""
    if len(raw) <= LONGEST_BYTES:
        return raw
    if b"\r" not in raw:
        return raw[:_BEGINNING_BYTES] + _CUT + raw[_BEGINNING_BYTES - LONGEST_BYTES :]
    unlike = list(dict(zip(raw.translate(None, _DIGITS).split(b"\r"), raw.split(b"\r"), strict=True)).values())
    if len(unlike) > 2 * _MOST_OVERWRITTEN:
        unlike = unlike[:_MOST_OVERWRITTEN] + unlike[-_MOST_OVERWRITTEN:]
    return b"\r".join(shortened(part) for part in unlike)


def readable(raw: bytes) -> list[str]:
    """The lines that a terminal would have shown one over the other: a progress bar goes back with \\r."""
    text = without_colours(shortened(raw)).decode("utf-8", "replace")
    return [strip_log_prefix(part) for part in text.split("\r") if part.strip()]


def strip_log_prefix(text: str) -> str:
    """Without what a container, a journal, a kubelet or a terminal puts before it."""
    text = text.rstrip()
    if text.startswith('{"log":"'):
        text = _of_docker(text)
    if "m" in text and "[" in text:
        text = _STRIPPED_COLOURS.sub("", text)
    return _ENVELOPES.sub("", _ENVELOPES.sub("", text, count=1), count=1)


def rank_of(text: str) -> str | None:
    """`Worker_TP3`, `rank2`, `TP7`, `GPU 3`; the pid only where the name alone does not tell ranks apart."""
    for pattern in _RANKS:
        if rank_match := pattern.match(text):
            parts = rank_match.groupdict()
            if name := parts.get("name"):
                return name if name[-1].isdigit() else f"{name} {parts['pid']}"
            if rank := parts.get("rank"):
                return str(rank).strip("[]")
            return str(parts["words"]).strip() if parts.get("words") else f"GPU {parts['gpu']}"
    return None


def message_of(text: str) -> str:
    """What the process said, without its name, time and place in the source."""
    for pattern in (_RANKS[0], _RANKS[0], _LEVEL, _RANKS[0], _LEVEL, _RANKS[1], _RANKS[3]):
        text = pattern.sub("", text, count=1)
    return text


def starts_a_line(text: str) -> bool:
    """Whether a program began a line here: of a line that was broken in two, the second half has no such beginning."""
    return any(pattern.match(text) for pattern in (*_RANKS, _LEVEL, _GLOG)) or _ENVELOPES.match(text) is not None


def is_quiet(text: str) -> bool:
    """Whether it was logged as a warning or for information, lists settings, or says how the program goes on."""
    plain = _OF_A_PROCESS.sub("", text, count=1)
    levels = _LOW_LEVEL.search(text) or _LOW_LEVEL.search(plain) or _LEVEL_LATER.search(plain)
    return bool(levels or _CONTINUES.search(plain)) or lists_settings(text)


def tells_no_level(text: str) -> bool:
    """Whether a logger that tells no level printed it, and it speaks of no failure."""
    return _WITHOUT_LEVEL.search(_OF_A_PROCESS.sub("", text, count=1)) is not None


def lists_settings(text: str) -> bool:
    """Whether it only tells what an engine was built or started with."""
    many = text.count("=") >= _MANY_SETTINGS and len(_SETTING.findall(text)) >= _MANY_SETTINGS
    return many or _ONE_SETTING.search(text) is not None


def is_harmless(text: str) -> bool:
    """Whether it says of itself that nothing failed: a warning, or a way out that was taken."""
    return bool(_LOW_LEVEL.search(text) or _GOES_ON.search(text))


def is_information(text: str) -> bool:
    """Whether an engine logged it for information, which it does not do with a request that was lost."""
    return _FOR_INFORMATION.search(text) is not None


def _of_docker(text: str) -> str:
    """A line of docker's json-file log."""
    try:
        return str(parse_json(text)["log"]).rstrip()
    except (ValueError, KeyError, TypeError):
        return text
