"""Guards: what is broken about an answer, whatever was asked.

The field's worst failures are silent: HTTP 200, and `!!!!!!!!` inside. Every rung and every benchmark passes here.
Guards say nothing about whether an answer is right; docs/proving.md holds how often they speak on sane texts.
"""

from upright.serving.endpoint.guards.answers import GUARDS as GUARDS
from upright.serving.endpoint.guards.answers import Complaint as Complaint
from upright.serving.endpoint.guards.answers import complaint as complaint
from upright.serving.endpoint.guards.answers import complaints as complaints
from upright.serving.endpoint.guards.token_counts import count_mismatch as count_mismatch
