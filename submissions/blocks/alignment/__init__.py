"""Word vectors that are private, read by published ones."""
