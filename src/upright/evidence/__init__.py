"""What was seen, for others: reports, bundles, shared claims."""
