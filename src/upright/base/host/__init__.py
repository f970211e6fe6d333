"""Host: the one seam to machines. Commands and files, here, over the user's ssh, or from a recording."""

from upright.base.host.contract import NOWHERE, Host, Result, placed
from upright.base.host.environment import handed_on, keeping_script
from upright.base.host.local import LocalHost
from upright.base.host.recorded import RecordedHost, RecordingHost
from upright.base.host.redaction import IdentityRedaction
from upright.base.host.ssh import SshHost

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
