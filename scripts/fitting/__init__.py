"""Published runs and pools -> constants and overheads of the catalogue, and how far such fits are off."""
