"""Host: the one seam to machines. Commands and files, here, over the user's ssh, or from a recording."""

from upright.host.contract import Host, Result
from upright.host.local import LocalHost

__all__ = ["Host", "LocalHost", "Result"]
