"""What is run inside an engine's own interpreter: standard library and the engine, nothing of ours."""
