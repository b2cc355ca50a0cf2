"""Measures a user's own model and text: plan, budget, findings, verdict and report."""
