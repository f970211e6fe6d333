"""What goes over every row or every file, in one process: each check yields a line for every fault."""
