"""Digests of the code and libraries that results depend on, whatever the task and submission.

Code is compared by its syntax tree without docstrings, so a better comment keeps old results.
"""

from __future__ import annotations

import ast
import hashlib
import json
from functools import cache
from importlib import metadata
from pathlib import Path

from benchmark.paths import ROOT
from benchmark.plugins.registry import task_code

LIBRARIES = ("torch", "transformers")
"""Their minor versions count: a patch release does not change what a model computes."""

UPDATE_CODE = (
    "spec.py",
    "execution/client.py",
    "execution/federated_client.py",
    "execution/local_training.py",
    "execution/randomness.py",
    "execution/worker.py",
    "plugins/composition.py",
    "execution/seeds.py",
    "snapshots/build.py",
    "snapshots/salt.py",
)
"""From a private batch to the update that a client sends, with the seeds on the way."""
ATTACK_CODE = ("execution/observing.py", "runs/server_view.py", "runs/threat_model.py")
"""What an attack is told about it."""
TRAINING_CODE = (
    "execution/trainer.py",
    "metrics/utility.py",
    "runs/utility_run.py",
    "runs/federated_rounds.py",
    "runs/federated_run.py",
)
"""How a model is trained with such updates, and tested."""
FEDERATED_CODE = ("runs/federated_test.py",)
"""How the clients of a federation are tested; other trainings know nothing of it."""


def updates_digest() -> str:
    """Over what snapshots depend on."""
    return _digest((*_own(UPDATE_CODE), *task_code("updates")))


def attacks_digest() -> str:
    """Over what the record of an attack depends on."""
    return _digest((*_own(UPDATE_CODE + ATTACK_CODE), *task_code("updates")))


def training_digest(federated: bool = False) -> str:
    """Over what the record of a training depends on."""
    own = _own(UPDATE_CODE + TRAINING_CODE + (FEDERATED_CODE if federated else ()))
    return _digest((*own, *task_code("updates"), *task_code("training")))


@cache
def _own(names: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(ROOT / "benchmark" / name for name in names)


@cache
def _digest(files: tuple[Path, ...]) -> str:
    code = [(path.name, code_digest(path.read_bytes())) for path in files]
    parts = [code, [minor_version(name) for name in LIBRARIES]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def code_digest(source: bytes) -> str:
    """Of what a module does: its syntax tree without strings that stand alone."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [s for s in body if not _is_text(s)]  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def minor_version(distribution: str) -> str:
    """`2.13` of `2.13.1+cpu`."""
    return ".".join(metadata.version(distribution).split(".")[:2])
