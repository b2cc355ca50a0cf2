"""The files of this package whose code results depend on, beside the digests of text and weights.

Their digest is part of every fingerprint: what was measured with other code is measured again.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent

UPDATES = tuple(
    HERE / name
    for name in (
        "batches.py",
        "objectives.py",
        "private.py",
        "public.py",
        "models/bilstm.py",
        "models/loading.py",
        "models/priors.py",
        "models/roles.py",
        "models/tokenizers.py",
    )
)
"""From text to batches, losses and what a model is asked."""

TRAINING = (HERE / "training_data.py", HERE / "partitions.py")
"""Which rows train, validate and test."""
