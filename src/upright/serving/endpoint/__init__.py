"""The one seam to running engines: ask, and tell a sane answer from a broken one."""
