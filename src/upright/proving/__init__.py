"""Deployment -> Evidence."""

from upright.proving.ladder import prove as prove
