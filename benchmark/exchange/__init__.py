"""Results that travel: the official plan of a submission, its package, import, and verification."""
