"""Record schema and store, scoring, worst case and utility per defense."""
