"""Differential privacy: per-sample clipping and accounting."""
