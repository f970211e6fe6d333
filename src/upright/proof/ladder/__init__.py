"""The proof ladder: Deployment -> Evidence."""

from upright.proof.ladder.ladder import prove as prove
