"""Which bytes go on which device, for each kind of engine."""
