"""Charts of the leaderboard: from plain data to SVG, without a browser."""
