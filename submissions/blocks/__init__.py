"""Building blocks that several submissions call."""
