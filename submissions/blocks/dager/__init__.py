"""Exact recovery from the spans of gradients: what `dager` is made of."""
