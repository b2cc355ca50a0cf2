"""Which parameter of a model is the word embedding, the position embedding, the output.

They are found by what they do in the model and not by what they are called, so that a model of a
kind that nobody has thought of has roles, too.
"""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from benchmark.errors import UserError
from benchmark.spec import Role, Roles

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_PROBE = 5
"""Tokens of the sentence that a model is tried with."""


def roles(model: PreTrainedModel) -> Roles:
    """Parameter names by role; for translation, those of the decoder, which reads the target."""
    names = {id(parameter): name for name, parameter in reversed(list(model.named_parameters()))}
    word: Tensor = _word_embedding(model).weight  # type: ignore[assignment]  # never a module
    output = _output_layer(model).weight
    if id(word) not in names or id(output) not in names:
        raise UserError(
            f"A model of type {model.config.model_type} keeps its words or its outputs where they "
            "are not found, so it cannot be measured."
        )
    found = {Role.WORD_EMBEDDING: names[id(word)], Role.OUTPUT: names[id(output)]}
    position = _position_table(model, word)
    if position is not None and id(position) in names:
        found[Role.POSITION_EMBEDDING] = names[id(position)]
    return Roles(names=found, tied=word is output)


def _reader(model: PreTrainedModel) -> nn.Module:
    """The part that reads the private text: the decoder of an encoder-decoder, else everything."""
    reader: nn.Module = model.get_decoder() if model.config.is_encoder_decoder else model
    return reader


def _word_embedding(model: PreTrainedModel) -> nn.Module:
    embedding: nn.Module = _reader(model).get_input_embeddings()  # type: ignore[operator]
    return embedding


def _output_layer(model: PreTrainedModel) -> nn.Module:
    """The vocabulary projection, or the last linear layer outside the body of a classifier."""
    projection: nn.Module | None = model.get_output_embeddings()
    if projection is not None:
        return projection
    body = {id(module) for module in model.base_model.modules()}
    heads = [m for m in model.modules() if isinstance(m, nn.Linear) and id(m) not in body]
    if not heads:
        raise UserError(f"A model of type {model.config.model_type} has no output layer.")
    return heads[-1]


# -------------------------------------------------------------------------------- positions


def _position_table(model: PreTrainedModel, words: Tensor) -> Tensor | None:
    """The table that is read at one row after another, whatever the words are, if there is one."""
    ids = torch.arange(_PROBE, device=words.device)[None] + len(words) // 2
    ids = ids % len(words)
    for table, rows in _lookups(_reader(model), ids):
        counted = rows.numel() == _PROBE and bool((rows.flatten().diff() == 1).all())
        if counted and table is not words:
            return table
    return None


class _Enough(Exception):
    """All that is looked up before the first linear layer has been seen."""


Made = TypeVar("Made")


class _Watch(TorchFunctionMode):
    """Sees every lookup of embeddings, also those whose module is asked for something else."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(
        self,
        func: Callable[..., Made],
        types: Sequence[type],
        args: Sequence[Tensor] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Made:
        if func in (functional.linear, torch.addmm):
            raise _Enough
        if func is functional.embedding:
            self.seen.append((args[1], args[0]))
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def _lookups(reader: nn.Module, ids: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Tables and the rows that are read of them, up to the first linear layer."""
    watch = _Watch()
    try:
        with watch:
            reader(input_ids=ids, attention_mask=torch.ones_like(ids))
    except (_Enough, TypeError, ValueError, AttributeError, RuntimeError):
        pass  # a model that cannot be tried this way shows what it has shown until then
    return watch.seen
