"""Foreign code, and a process that judges it: what runs behind the walls of the sandbox.

`walls`, `syscalls`, `inside`, `plain`, `answering` and `judging` are sent as source to a bare interpreter: they import
the standard library and each other, nothing else. `ways` stays outside and starts them.
"""
