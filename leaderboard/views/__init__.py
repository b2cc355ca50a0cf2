"""What each page compares, as data."""
