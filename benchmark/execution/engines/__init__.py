"""What runs jobs: local processes."""
