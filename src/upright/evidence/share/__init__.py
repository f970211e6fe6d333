"""A deployment -> a claim that anybody can verify and replay, and an index of such claims."""
