"""Seeds of everything random, each derived one way from what it is for.

What a defense, a client or a training draws depends on a salt that lies with the truths
(`salt.py`), so that no attack can compute it; what an attack draws depends on public names alone.
"""

from __future__ import annotations

import hashlib
import json


def derive_seed(purpose: str, *parts: object) -> int:
    """A seed of 256 bits from anything that prints the same everywhere."""
    text = json.dumps([purpose, *(str(part) for part in parts)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def client_seed(salt: str, batch: str, task: str, defense: str, seed: int, index: int) -> int:
    """Seed of one client's update; `batch` is the digest of its private batch."""
    return derive_seed("defense", salt, batch, task, defense, seed, index)


def construction_seed(salt: str, task: str, defense: str, seed: int) -> int:
    """Seed of what a defense draws when it is made, before it has seen a batch."""
    return derive_seed("construction", salt, task, defense, seed)


def training_seed(salt: str, task: str, seed: int) -> int:
    """Seed of a training: the same for every defense, so that all take batches in one order."""
    return derive_seed("training", salt, task, seed)


def attack_seed(task: str, attack: str, seed: int, index: int | str = "prepare") -> int:
    """Seed of an attack's own randomness, below 2^63 as libraries want it; tells nothing else."""
    return derive_seed("attack", task, attack, seed, index) >> 193
