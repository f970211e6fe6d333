"""Host -> Box, in two round trips: what is there, and what the engines found say of themselves."""

from __future__ import annotations

from upright.base.host import Host
from upright.base.units import GB, KIB
from upright.facts import catalog
from upright.facts.records.base import Figure, unknown
from upright.facts.records.box import Box, EngineInstall, Gpu
from upright.facts.store.bandwidths import keep_bandwidth, kept_bandwidth
from upright.planning.probing import (
    bandwidth,
    engines,
    host_settings,
    links,
    machine,
    memory_modules,
    nvidia,
    software,
    storage,
)
from upright.planning.probing.questions import Answers, ask

_ROOMS = (machine, memory_modules, nvidia, links, storage, software, host_settings)
FIRST_ROUND = {name: argv for room in _ROOMS for name, argv in room.QUESTIONS.items()}
NOT_MEASURED = unknown("not measured: upright probe --measure")


HELP_SECONDS = 180


def probe(host: Host, *, measure: bool = False, flags: bool = False) -> Box:
    """Never fails for what a machine does not tell: that becomes an unknown with its reason.

    `measure` reads system RAM for a few seconds, and later looks at the same hardware have that figure; `flags` asks
    Python engines for their help, which imports torch.
    """
    answers = ask(host, {**FIRST_ROUND, **engines.first_questions()})
    answers = {**answers, **ask(host, engines.engine_questions(answers))}
    total, available = machine.read_memory(answers)
    dimms, theoretical = memory_modules.read_modules(answers)
    numa, pairs = machine.read_numa(answers), links.read_links(answers)
    gpus = _gpus(answers, total, available)
    box = Box(
        name=software.read_name(answers) or host.name,
        basis="probed",
        cpu=machine.read_cpu(answers),
        memory_bytes=total,
        memory_available_bytes=available,
        memory_modules=dimms,
        memory_bandwidth_bytes_per_second=theoretical,
        memory_bandwidth_measured_bytes_per_second=NOT_MEASURED,
        numa=numa,
        gpus=gpus,
        links=pairs,
        disks=storage.read_disks(answers),
        model_cache=storage.read_model_cache(answers),
        software=software.read_software(answers),
        containers=software.read_containers(answers),
        engines=_engines(host, answers, flags),
        settings=(
            *engines.blind_variables(answers),
            *host_settings.read_settings(host_settings.ProbedHost(answers, gpus, pairs, numa)),
        ),
    )
    figure = bandwidth.measure(host, available) if measure else kept_bandwidth(box.identity)
    if measure and figure is not None:
        keep_bandwidth(box.identity, figure)
    return box if figure is None else box.model_copy(update={"memory_bandwidth_measured_bytes_per_second": figure})


def _engines(host: Host, answers: Answers, flags: bool) -> tuple[EngineInstall, ...]:
    installs = engines.read_engines(answers)
    if not flags:
        return installs
    return engines.with_flags(installs, ask(host, engines.help_questions(installs), timeout_seconds=HELP_SECONDS))


def _gpus(answers: Answers, memory_bytes: Figure, memory_available_bytes: Figure) -> tuple[Gpu, ...]:
    """What the driver says, the matrix's NUMA column where sysfs is silent, and the catalogue's silicon figures."""
    affinities = links.numa_affinities(answers)
    gpus = []
    for gpu in nvidia.read_gpus(answers):
        row = catalog.find_gpu(gpu.name)
        changes: dict[str, object] = {}
        if gpu.numa_node is None:
            changes["numa_node"] = affinities.get(gpu.index)
        if row is None:
            why = unknown(f"no row of the catalogue's gpus has the device name {gpu.name}")
            changes |= {"memory_bandwidth_bytes_per_second": why, "shared_memory_block_bytes": why}
        else:
            changes |= {
                "row": row.id,
                "memory_bandwidth_bytes_per_second": row.memory_bandwidth_gb_s.figure(f"gpus/{row.id}", GB),
                "shared_memory_block_bytes": row.shared_memory_block_kib.figure(f"gpus/{row.id}", KIB),
            }
            # Guard: nvidia-smi reports [N/A] for memory that GPU and CPU share, as on GB10.
            # https://github.com/Syllo/nvtop/issues/426
            if row.unified_memory and gpu.memory_bytes.value is None:
                changes |= {
                    "memory_bytes": _shared(memory_bytes),
                    "memory_free_bytes": _shared(memory_available_bytes),
                }
        gpus.append(gpu.model_copy(update=changes))
    return tuple(gpus)


def _shared(figure: Figure) -> Figure:
    if figure.value is None:
        return figure
    return Figure(value=figure.value, basis="derived", source=f"shared with system RAM: {figure.source}")
