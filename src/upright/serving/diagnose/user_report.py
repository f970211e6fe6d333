"""The sentences of a user's report that complain, apart from those that describe the machine.

A report names its command, its machine, what was tried in vain and what works, beside what went wrong. A word there is
no symptom: who writes that it "also happens without MTP" does not say that MTP breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from upright.engines import ENGINES

_ENGINES = "|".join(map(re.escape, ENGINES))
_LABEL = re.compile(
    r"^\W{0,4}(?:(?:my|our|the|your) )?(?:current |full |exact |test )?(?:OS|operating system|GPUs?|CPU|driver"
    r"|nvidia\W?smi|cuda|rocm"
    rf"|python|py ?torch|torch|{_ENGINES}|ollama|transformers|flash-?infer|triton|versions?"
    r"|name and version|models?"
    r"|model name|hardware|environment|env|config(?:uration)?|settings?|platform|images?|containers?|kernel|RAM"
    r"|memory|runtime"
    r"|backends?|commands?(?: line)?|launch(?:ed)?(?: with| command)?|engine|client|quanti[sz]ation|deployment"
    r"|set-?up|nodes?"
    r"|system(?: info)?|docker image|machine|topology|network|software|parameters|flags|args|arguments|compute)"
    r"\W{0,3} ?[:=：](?!//)",
    re.IGNORECASE,
)
"""How people begin a line that tells what they have."""
_COMMAND = re.compile(
    r"^\W{0,3}(?:[A-Z][A-Z0-9_]{2,}=\S+ +)*(?:\$ |sudo |\./|(?:/[\w.-]+)+/[\w.-]+ |[\w.]+ serve "
    r"|python3? |docker |podman "
    r"|[\w.]+-(?:server|cli|bench|serve)(?:\.exe)? +-|numactl |torchrun |ray start|pip3? install|uv |curl "
    r"|export )"
    r"|^\W{0,3}(?:[A-Z][A-Z0-9_]{2,}=\S+ +)+[A-Z][A-Z0-9_]{2,}=\S+ *$"
    r"|^\s*-{1,2}[a-z][\w-]*(?:[ =](?!-{1,2}[a-z])\S+)?(?: +-{1,2}[a-z][\w-]*(?:[ =](?!-{1,2}[a-z])\S+)?)+\s*\\?$"
)
_ONE_FLAG = re.compile(r"(?<![\w-])-{1,2}[a-zA-Z][\w.-]*(?:[ =](?!-)(?:'[^']*'|\"[^\"]*\"|[\w./:,{}\[\]=*|()-]+))?")
_ENDS = re.compile(
    r"(?<=[.!?;])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)(?<!etc\.)[)\"'*`]{0,2}\s+(?=[\"'`*(\[]{0,2}[A-Z0-9\u4e00-\u9fff]"
    r"|[-–—] )|(?<=[。！？；])\s*|\n+"
)
_PLAINT = (
    r"crash\w*|fail\w*|errors?\b|broken?|breaks?|dies\b|died|abort\w*|assert\w*|seg\w*fault\w*|exception"
    r"|exhaust\w*|collaps\w*"
    r"|illegal|refus\w+|unable|impossible|hang\w*|hung|stuck|stick\w*|freez\w+|froze\w*|dead-?lock\w*|unresponsive"
    r"|wedge\w*|stall\w*"
    r"|slow\w*|regress\w*|degrad\w*|drop\w*|decays?|poor|worse|bad\b|low\b|lower\b|high\b|unusabl\w+|leak\w*"
    r"|grow\w*|balloon\w*|OOM\w*"
    r"|out of|not enough|exceed\w*|overflow\w*|insufficient|killed?|restart\w*|reboot\w*|reset\w*|lost|lose\w*"
    r"|missing|empty|blank|null\b"
    r"|wrong\w*|incorrect\w*|garbage|garbled|gibberish|nonsens\w*|corrupt\w*|incoherent|repeat\w*|repetit\w+"
    r"|loop\w*|endless\w*|infinit\w+"
    r"|meaningless|unreadable|nan\b|!!!|\?\?\?|truncat\w*|malformed|invalid|ignor\w*|silent\w*|unexpected\w*"
    r"|unstable|ineffective|useless|mismatch\w*"
    r"|diverg\w+|differ\w*|inconsisten\w+|duplicat\w*|reject\w*|time[ds]?[ -]?out\w*|disconnect\w*|unreachable"
    r"|denied|forbidden"
    r"|problems?\b|issues?\b|bugs?\b|trouble|fault\w*|instead of|falls? back|fell|never|nothing|cannot|can't"
    r"|can not|could not|couldn't"
    r"|does ?n[o']t|do not|don't|did ?n[o']t|is ?n[o']t|are ?n[o']t|was ?n[o']t|won't|not\b|no longer"
    r"|no (?!\w+ing)\w+|without any"
    r"|only|but\b|however|unsupported|undefined|panic|stops?\b|stopped|too (?:long|large|many|small)|takes? \d"
    r"|half|halves|spik\w+|throttl\w*|raises?"
    r"|throws?|\b[45]\d\d\b|[ĠĊ]|</?\w*think|<\|?tool|leaves?|cut\b|raw\b|exclud\w+|inability|inaccura\w+"
    r"|accura\w+|hallucinat\w*"
    r"|报错|失败|崩溃|卡|慢|乱码|不|无法|错误|重复|异常|溢出|泄漏|为啥|为什么"
)
_COMPLAINS = re.compile(rf"(?:(?<![A-Za-z])(?:{_PLAINT}))", re.IGNORECASE)
_IN_VAIN = re.compile(
    r"\b(?:no|zero|little) (?:effect|change|difference|luck|success|avail|improvement|help)\b|\b(?:did|does|do|has"
    r"|have|had|was|were|is|are)"
    r"(?:n't| not) (?:\w+ )?(?:help\w*|resolv\w+|fix\w*|solv\w+|chang\w+|matter|improv\w+|work around|make (?:any "
    r"|a )?difference)"
    r"|\bnone of (?:it|them|these|those|this|that|which)\b|\bnothing (?:helps?|helped|works|worked|changed"
    r"|changes)\b|\bto no avail\b"
    r"|\b(?:same|identical) (?:issue|problem|error|result|behaviou?r|crash|output|thing"
    r"|failure)s?\b.{0,40}\b(?:with|without|on|if|when|after|using)\b"
    r"|\b(?:also|still) (?:happen|occur|reproduc|fail|crash|hang|persist|present)\w*,? (?:with|without|on|if|when"
    r"|after|in|even)\b"
    r"|\b(?:issue|problem|error|bug|crash|hang|it) (?:still )?(?:persists|remains)\b|\b(?:can be|is|was|were|are"
    r"|been) ruled out\b|\bruling out\b"
    r"|\b(?:is|was|are|were|it's|it is)(?:n't| not) (?:\w+ ){0,2}(?:related|caused|due|specific|limited|because"
    r"|an? (?:\w+ ){0,3}(?:problem|issue|error|matter)"
    r"|the (?:issue|cause|problem|reason|culprit))|\bunrelated to\b|\bnot (?:an? )?(?:\w+ ){0,3}(?:issue"
    r"|problem)\b|\bso that wasn't\b",
    re.IGNORECASE,
)
"""What was tried, or looked at, and is not the reason."""
_TRIED = re.compile(
    r"^\W{0,4}(?:so |then |and |but )?(?:(?:I|we)(?:'ve| have)? )?(?:also |already |even )*(?:tried|tested with"
    r"|experimented with)\b",
    re.IGNORECASE,
)
_FALLS = re.compile(
    r"\b(?:crash\w*|fail\w*|hang\w*|hung|stuck|freez\w+|slow\w*|garbage|gibberish|wrong|OOM\w*|unusabl\w+|unable"
    r"|can ?not|can't|broken?|breaks?|errors?"
    r"|garbled|leak\w*|killed|missing|empty|los(?:es?|t)|not working|does ?n[o']t)\b",
    re.IGNORECASE,
)
_WORKS = re.compile(
    r"\b(?:works?|working|worked|runs?|running|is|are|was|were|behaves?|loads?|stays?|performs?) (?:\w+ )?(?:fine"
    r"|well|correctly|perfectly|normally|great|ok|okay|healthy|expected"
    r"|properly|without (?:any )?(?:issues?|problems?|errors?|trouble))\b|\b(?:does|do|did)(?:n't| not) (?:show"
    r"|have|exhibit|suffer|crash|hang|reproduce)\b"
    r"|\b(?:is|are|was|were|looks?|appears?|seems?|remains?|stays?) (?:\w+ )?(?:healthy|plenty|idle and fine)\b"
    r"|\bplenty of free\b|: stable\b",
    re.IGNORECASE,
)
_TELLS_BY_WORKING = re.compile(
    r"\b(?:without|disabl\w+|off\b|remov\w+|revert\w*|roll\w*|downgrad\w*|older|previous|earlier|last|until|before"
    r"|prior|since|instead|single|one|1|first"
    r"|small\w*|short\w*|but|only|if|when|fix\w*|after|once|initial\w*|v?\d+\.\d+|b\d{4}|low\w*|unquanti[sz]ed"
    r"|bf16|bfloat16)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"[,(]? ?\b(?:even (?:with|when|after|without|on)|regardless of|no matter|with (?:and|or) without"
    r"|irrespective of|whether or not|unlike"
    r"|only (?:SIGKILL|kill -9|a (?:hard )?reboot|restarting) (?:works|helps)|in contrast to|as opposed to"
    r"|(?:reads|looks|behaves) (?:exactly|just) like|(?:both )?with or without|either with)\b[^.;)]*",
    re.IGNORECASE,
)
_ABSENT = re.compile(
    r"\b(?:no|w/o|not using(?: any)?|without(?! (?:it|this|that|the flag|any)\b)|disabled?|(?:is|are|was"
    r"|were) (?:off|disabled)) "
    r"(?:MTP|EAGLE\d?|specul\w+(?: decoding)?|LM ?Cache|hi-?cache|prefix[- ]cach\w+|NV ?Link|docker|ray"
    r"|cuda ?graphs?|tensor parallel\w*"
    r"|RDMA|Infini[Bb]and|quanti[sz]ation|LoRA|off-?load\w*|P2P|flash[- ]?attention|custom all-?reduce"
    r"|expert parallel\w*|MCP|thinking)\b",
    re.IGNORECASE,
)
_CLAUSES = re.compile(r"(?<=\w): |, (?:and|but|so|which|while|yet) |; | [—–-] ")
_WRAPPED_FROM = 60
"""A line as long as that, and without an end, goes on in the next one."""
_FEWEST_WORDS = 4


class UserReport(NamedTuple):
    """What somebody wrote, by what it is for."""

    complaints: tuple[str, ...]
    """Sentences in which something goes wrong."""
    setting: tuple[str, ...]
    """Sentences that tell what they have and do."""
    context: tuple[str, ...]
    """Commands, what was tried in vain, what works, what is only said for comparison."""


def read_report(lines: Sequence[str]) -> UserReport:
    """What was tried in vain, what works and what was only typed is left out."""
    complaints: list[str] = []
    setting: list[str] = []
    context: list[str] = []
    for line in _paragraphs(lines):
        if _COMMAND.search(line) and not _speaks(line):
            context.append(line)
            continue
        for sentence in filter(None, map(str.strip, _ENDS.split(line))):
            kept = _kept(_without_asides(sentence))
            context += [aside[0] for aside in _ASIDE.finditer(sentence)] if kept else [sentence]
            if kept:
                (complaints if _is_complaint(kept) else setting).append(kept)
    return UserReport(tuple(complaints), tuple(setting), tuple(context))


def _paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Lines, put together where one was broken because it was long."""
    pending = ""
    for line in lines:
        if pending and not (_goes_on(pending) and line.strip()[:1].islower() and not _COMMAND.match(line)):
            yield pending
            pending = ""
        pending = f"{pending} {line.strip()}".strip()
    if pending:
        yield pending


def _goes_on(line: str) -> bool:
    return len(line) >= _WRAPPED_FROM and line.rstrip()[-1:] not in ".!?:;。！？；\\"


def _speaks(line: str) -> bool:
    """Whether a person says something of a command that stands in the same line."""
    rest = _ONE_FLAG.sub(" ", line)
    return bool(_FALLS.search(rest)) and len(re.findall(r"[A-Za-z]{2,}", rest)) > _FEWEST_WORDS


def _kept(sentence: str) -> str:
    """Of a sentence that is context, the clauses in which something falls all the same."""
    if not _is_context(sentence):
        return sentence
    clauses = _CLAUSES.split(sentence)
    falling = [clause for clause in clauses if _FALLS.search(clause) and not _is_context(clause)]
    works = [clause for clause in clauses if _WORKS.search(clause) and not _is_context(clause)]
    return ": ".join((*falling, *works)) if len(clauses) > 1 else ""


def _is_complaint(sentence: str) -> bool:
    """What works only without a part complains of that part."""
    if _LABEL.match(sentence) and not _FALLS.search(sentence):
        return False
    return bool(_COMPLAINS.search(sentence) or _WORKS.search(sentence))


def _is_context(sentence: str) -> bool:
    if _IN_VAIN.search(sentence):
        return True
    if _TRIED.match(sentence) and not _FALLS.search(sentence):
        return True
    return bool(_WORKS.search(sentence)) and not _TELLS_BY_WORKING.search(sentence) and not _FALLS.search(sentence)


def _without_asides(sentence: str) -> str:
    return _ABSENT.sub(" ", _ASIDE.sub(" ", sentence)).strip()
