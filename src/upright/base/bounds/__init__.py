"""HTTP and JSON of peers that are not trusted, with limits on time, bytes, lines and values.

Whoever talks to a server talks through here: an engine, a hub, anybody's endpoint.
"""

from upright.base.bounds.bounded_json import checked_count as checked_count
from upright.base.bounds.bounded_json import parse_peer_json as parse_peer_json
from upright.base.bounds.errors import ExceededError as ExceededError
from upright.base.bounds.errors import OverdueError as OverdueError
from upright.base.bounds.http_client import MOST_BYTES as MOST_BYTES
from upright.base.bounds.http_client import Deadline as Deadline
from upright.base.bounds.http_client import answer_limit_bytes as answer_limit_bytes
from upright.base.bounds.http_client import answer_limit_seconds as answer_limit_seconds
from upright.base.bounds.http_client import body as body
from upright.base.bounds.http_client import client as client
from upright.base.bounds.http_client import describe_failure as describe_failure
from upright.base.bounds.http_client import first_bytes as first_bytes
from upright.base.bounds.http_client import left_seconds as left_seconds
from upright.base.bounds.http_client import lines as lines
from upright.base.bounds.http_client import raw_pieces as raw_pieces
from upright.base.bounds.http_client import time_limit as time_limit
