"""Pages from views, and their way to disk."""
