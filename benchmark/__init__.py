"""The harness: contract, snapshots, workers, records and metrics. Knows no corpus, attack or page."""
