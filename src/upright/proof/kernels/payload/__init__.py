"""What runs inside the child interpreter: the standard library and Triton, nothing of Upright."""
