"""Which token types a gradient contains."""
