"""The public half of a task, which workers use: models, roles, objectives and priors.

Must not import `tasks.corpora`: inside the fence there is no such folder.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from benchmark.spec import Batch, Objective
from tasks.models.loading import open_model, roles
from tasks.models.priors import open_prior, self_prior
from tasks.objectives import OBJECTIVES

__all__ = ["batch", "objective", "open_model", "open_prior", "roles", "self_prior"]


def objective(name: str) -> Objective:
    """An objective by the name that the task gives."""
    return OBJECTIVES[name]


def batch(tensors: Mapping[str, Tensor]) -> Batch:
    """A batch from tensors by field name, as snapshots store it."""
    return Batch(**tensors)
