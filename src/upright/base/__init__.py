"""The foundation: units, errors, limits on input, untrusted text, the terminal, hosts."""
