"""Faults that really happen to a run: nothing is lost, and one sentence says what is wrong."""
