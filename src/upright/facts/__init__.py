"""What is known and kept: records, the catalogue, the store."""
