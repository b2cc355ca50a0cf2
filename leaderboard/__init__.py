"""The leaderboard: from records and scores to ranks and static pages."""
