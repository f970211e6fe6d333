"""How fast system RAM is, by the processor's name or by how much of it there is."""

from upright.facts.catalog.rows.base import NonEmptyText, Row

_CHANNEL_BYTES = 8


class MemoryPlatformRow(Row):
    """Channels and speed of the system RAM of a kind of machine, every channel populated."""

    about: NonEmptyText
    """Which machines."""
    processors: tuple[NonEmptyText, ...] = ()
    """Patterns of the processor's name, as /proc/cpuinfo or its owner writes it; none for a default."""
    from_gib: float | None = None
    """A default: of machines with at least so much system RAM, where nothing else is known; None otherwise."""
    memory_kind: NonEmptyText
    """DDR5, DDR4."""
    channels: int
    """Of one socket."""
    mega_transfers_per_second: int
    """The fastest that the processor is specified for, one module a channel."""

    @property
    def socket_bytes_per_second(self) -> float:
        return self.channels * self.mega_transfers_per_second * 1e6 * _CHANNEL_BYTES

    @property
    def words(self) -> str:
        """`12x DDR5-4800`."""
        return f"{self.channels}x {self.memory_kind}-{self.mega_transfers_per_second}"
