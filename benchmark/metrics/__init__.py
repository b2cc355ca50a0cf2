"""What a recovery is worth, what a defense costs, and how sure we are of either."""
