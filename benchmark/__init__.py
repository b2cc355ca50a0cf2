"""The harness: contract, snapshots, workers, records, metrics. Knows no corpus, attack or page."""
