"""llama.cpp: layers over devices, experts where they fit."""
