"""What is measured: corpora, models, objectives, suites."""
