"""Host: the one seam to machines. Commands and files, here, over the user's ssh, or from a recording."""

from upright.base.host.contract import NEUTRAL_FOLDER, Host, Result, with_absolute_program
from upright.base.host.environment import environment_script, passed_environment
from upright.base.host.local import LocalHost
from upright.base.host.recorded import RecordedHost, RecordingHost
from upright.base.host.redaction import IdentityRedaction
from upright.base.host.ssh import SshHost

__all__ = [
    "NEUTRAL_FOLDER",
    "Host",
    "IdentityRedaction",
    "LocalHost",
    "RecordedHost",
    "RecordingHost",
    "Result",
    "SshHost",
    "environment_script",
    "passed_environment",
    "with_absolute_program",
]
