"""Building, storing, sketching and verifying the fixed gradient snapshots."""
