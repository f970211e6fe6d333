"""What a row of each kind says: frozen, strict, every row with its sources and a grade."""
