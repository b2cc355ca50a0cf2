"""The harness: contract, snapshots, workers, records, metrics. Knows no corpus, attack or page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from benchmark.auditing.report import Report
    from benchmark.suites import ObjectiveName

    Labels = Sequence[int] | Sequence[str]
    Array = NDArray[np.floating] | torch.Tensor


class AuditOptions(TypedDict, total=False):
    """What can be asked of `audit` and `audit_update`."""

    objective: ObjectiveName
    """What the model is trained for: causal-lm (the default), classification or translation."""
    batch_size: int
    """Texts behind one update, 1 by default."""
    local_steps: int
    """Steps that a client takes before it shares the difference of its weights, 1 by default."""
    learning_rate: float
    """Of those steps, 0.01 by default."""
    attacks: Sequence[str]
    """Names as `leakboard list attacks` has them, strongest first; all of them by default."""
    defenses: Sequence[str]
    """Names as `leakboard list defenses` has them; noise, DP-SGD, pruning and freezing."""
    seconds: float
    """Time that the audit may take, 600 by default."""
    utility: bool
    """Train with each defense, too, to see what it costs in quality."""
    redact: bool
    """Mask all text in the report."""
    sentences: int
    """Texts that are attacked at most, 10 by default."""
    seed: int
    device: str
    """auto (the default), cpu, cuda or cuda:N."""
    jobs: int
    """Workers at once, by default one a core or one a GPU."""
    memory_limit_gb: float


def audit(
    model: PreTrainedModel | str | Path,
    tokenizer: PreTrainedTokenizerBase | None,
    texts: Sequence[str] | str | Path,
    labels: Labels | None = None,
    sources: Sequence[str] | None = None,
    **options: Unpack[AuditOptions],
) -> Report:
    """What can be read back from the gradients of a model on some texts.

    The model is a transformers model, or the path of a saved one (then `tokenizer` may be None);
    the texts are a list, or the path of a file. Classification needs `labels`, translation needs
    `sources`, one for each text. Nothing leaves the machine, and nothing is left on it.
    """
    from benchmark.auditing.door import audit as conduct
    from benchmark.auditing.request import AuditRequest

    return conduct(model, tokenizer, texts, AuditRequest(**options), labels, sources)


def audit_update(
    model: PreTrainedModel | str | Path,
    tokenizer: PreTrainedTokenizerBase | None,
    update: Mapping[str, Array] | Sequence[Array],
    names: Sequence[str] | None = None,
    difference: bool = False,
    texts: Sequence[str] | None = None,
    labels: Labels | None = None,
    **options: Unpack[AuditOptions],
) -> Report:
    """What can be read back from one update that you have computed yourself.

    The update is a dictionary of gradients by parameter name, or a list of arrays with `names`, as
    Flower sends it. With `difference` it holds new weights less old ones. Give the `texts` behind
    it to have the answer scored; without them the report shows what was recovered.
    """
    from benchmark.auditing.door import audit_update as conduct
    from benchmark.auditing.request import AuditRequest

    request = AuditRequest(**options)
    return conduct(model, tokenizer, update, request, names, difference, texts, labels)
