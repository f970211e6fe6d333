"""What a peer sends -> no more of it, and for no longer, than was agreed: seconds, bytes, lines, values.

Whoever talks to a server talks through here: an engine, a hub, anybody's endpoint.
"""

from upright.base.bounds.answers import longest_seconds as longest_seconds
from upright.base.bounds.answers import most_bytes as most_bytes
from upright.base.bounds.errors import ExceededError as ExceededError
from upright.base.bounds.errors import OverdueError as OverdueError
from upright.base.bounds.exchanging import MOST_BYTES as MOST_BYTES
from upright.base.bounds.exchanging import Clock as Clock
from upright.base.bounds.exchanging import beginning as beginning
from upright.base.bounds.exchanging import body as body
from upright.base.bounds.exchanging import client as client
from upright.base.bounds.exchanging import fault as fault
from upright.base.bounds.exchanging import left_seconds as left_seconds
from upright.base.bounds.exchanging import lines as lines
from upright.base.bounds.exchanging import raw_pieces as raw_pieces
from upright.base.bounds.exchanging import within as within
from upright.base.bounds.values import count as count
from upright.base.bounds.values import parsed as parsed
