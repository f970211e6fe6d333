"""Nouns: what the verbs take and give. Frozen, versioned, no I/O."""

from upright.facts.records.loading import load as load
