"""Nouns: what the verbs take and give. Frozen, versioned, no I/O."""
