"""DIMM tables of several firmwares."""

import pytest

from upright.base.host import Result
from upright.planning.probing.memory_modules import read_modules

MODULE = """Handle 0x{n:04X}, DMI type 17, 92 bytes
Memory Device
\tData Width: {width} bits
\tSize: {size}
\tLocator: {locator}
\tBank Locator: {bank}
\tType: DDR5
\tSpeed: 5600 MT/s
\tConfigured Memory Speed: {speed}

"""


def _table(rows, width=64, speed="4800 MT/s", size="32 GB"):
    text = "".join(
        MODULE.format(n=n, bank=bank, locator=locator, width=width, speed=speed, size=size)
        for n, (bank, locator) in enumerate(rows)
    )
    return {"dmidecode": Result(0, text, "")}


@pytest.mark.parametrize(
    ("rows", "channels"),
    [
        ([("P0 CHANNEL A", "DIMM 0"), ("P0 CHANNEL A", "DIMM 1"), ("P0 CHANNEL B", "DIMM 0")], 2),
        ([("P0_Node0_Channel2_Dimm0", "DIMMC1"), ("P0_Node0_Channel2_Dimm1", "DIMMC2")], 1),
        ([("P0_Node0_Channel1_Dimm0", "x"), ("P0_Node0_Channel10_Dimm0", "y"), ("P1_Node1_Channel1_Dimm0", "z")], 3),
        ([("BANK 0", "Controller0-ChannelA-DIMM0"), ("BANK 1", "Controller0-ChannelA-DIMM1")], 1),
        ([("BANK 0", "Controller0-ChannelA-DIMM0"), ("BANK 0", "Controller1-ChannelA-DIMM0")], 2),
        ([("NODE 1", "CPU1_DIMM_A1"), ("NODE 1", "CPU1_DIMM_A2"), ("NODE 2", "CPU2_DIMM_A1")], 2),
        ([("BANK 0", "DIMM_A2"), ("BANK 1", "DIMM_B2")], 2),
    ],
)
def test_channels_from_locators(rows, channels):
    modules, bandwidth = read_modules(_table(rows))
    assert modules.count.value == len(rows)
    assert (modules.channels.value, modules.channels.basis) == (channels, "derived")
    assert bandwidth.value == channels * 4800 * 10**6 * 8


def test_locators_that_say_nothing_are_an_assumption():
    modules, bandwidth = read_modules(_table([("Not Specified", "Slot 1"), ("Not Specified", "Slot 2")]))
    assert (modules.channels.value, modules.channels.basis) == (2, "assumed")
    assert bandwidth.basis == "assumed"


def test_narrow_channels_of_soldered_memory():
    _, bandwidth = read_modules(_table([("P0 CHANNEL A", "DIMM 0"), ("P0 CHANNEL B", "DIMM 0")], width=32))
    assert bandwidth.value == 2 * 4800 * 10**6 * 4


def test_the_configured_speed_counts_and_the_slowest_module():
    answers = _table([("P0 CHANNEL A", "DIMM 0")], speed="4400 MT/s")
    assert read_modules(answers)[0].speed_mega_transfers_per_second.value == 4400


def test_a_virtual_machine_without_speeds_stays_unknown():
    modules, bandwidth = read_modules(_table([("Not Specified", "DIMM 0")], speed="Unknown", size="16 GB"))
    assert modules.count.value == 1
    # The fallback is the printed speed only when the configured one is absent, not when it is unknown.
    assert modules.speed_mega_transfers_per_second.value is None
    assert bandwidth.value is None


def test_empty_slots_do_not_count():
    answers = _table([("P0 CHANNEL A", "DIMM 0")], size="No Module Installed")
    assert read_modules(answers)[1].value is None


def test_udev_serves_where_only_root_may_read_the_table():
    udev = "\n".join(
        f"E:MEMORY_DEVICE_{n}_SIZE=68719476736\nE:MEMORY_DEVICE_{n}_TYPE=DDR5\nE:MEMORY_DEVICE_{n}_LOCATOR=DIMM 0\n"
        f"E:MEMORY_DEVICE_{n}_BANK_LOCATOR=P0 CHANNEL {letter}\nE:MEMORY_DEVICE_{n}_CONFIGURED_SPEED_MTS=6000\n"
        f"E:MEMORY_DEVICE_{n}_DATA_WIDTH=64"
        for n, letter in enumerate("ABCDEFGH")
    )
    udev += "\nE:MEMORY_DEVICE_8_PRESENT=0\nE:MEMORY_DEVICE_8_LOCATOR=DIMM 0\n"
    answers = {"dmidecode": Result(1, "", "/dev/mem: Permission denied"), "udev-dmi": Result(0, udev, "")}
    modules, bandwidth = read_modules(answers)
    assert (modules.count.value, modules.channels.value) == (8, 8)
    assert bandwidth.value == 384_000_000_000


def test_no_table_says_why():
    _, bandwidth = read_modules({"dmidecode": Result(127, "", "not found")})
    assert bandwidth.value is None
    assert "needs root" in (bandwidth.source or "")
