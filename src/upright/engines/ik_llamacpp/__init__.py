"""ik_llama.cpp: a fork of llama.cpp with MLA modes and its own quantisation types."""
