"""A GPU that is not here, for vLLM's own start code.

Sent to the interpreter that has vLLM, and imported by nothing of ours. `confined` bounds the process, `gpu` answers for
the driver, `operators` for compiled kernels, `ranks` for the process group; `start` takes one command as far as vLLM's
own "GPU KV cache size", and `verdict` says what a raised exception is worth. `asking` reads questions and writes
answers.
"""
