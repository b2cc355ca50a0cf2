"""Tests of the leaderboard."""
