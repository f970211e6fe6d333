"""Host: the one seam to machines. Commands and files, here, over the user's ssh, or from a recording."""

from upright.host.contract import NOWHERE, Host, Result, placed
from upright.host.environment import handed_on, keeping_script
from upright.host.local import LocalHost
from upright.host.recorded import RecordedHost, RecordingHost
from upright.host.redaction import IdentityRedaction
from upright.host.ssh import SshHost

__all__ = [
    "NOWHERE",
    "Host",
    "IdentityRedaction",
    "LocalHost",
    "RecordedHost",
    "RecordingHost",
    "Result",
    "SshHost",
    "handed_on",
    "keeping_script",
    "placed",
]
