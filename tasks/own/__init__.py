"""A user's own model and text as tasks: what `leakboard audit` measures."""
