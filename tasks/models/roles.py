"""Which parameter of a model is the word embedding, the position embedding, the output."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from benchmark.spec import Role, Roles

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_POSITION_NAMES = frozenset({"wpe", "position_embeddings", "embed_positions"})


def roles(model: PreTrainedModel) -> Roles:
    """Parameter names by role; for translation, those of the decoder, which reads the target."""
    names = {id(parameter): name for name, parameter in reversed(list(model.named_parameters()))}
    word = _word_embedding(model).weight
    output = _output_layer(model).weight
    found = {Role.WORD_EMBEDDING: names[id(word)], Role.OUTPUT: names[id(output)]}
    position = _position_embedding(model)
    if position is not None and id(position.weight) in names:
        found[Role.POSITION_EMBEDDING] = names[id(position.weight)]
    return Roles(names=found, tied=word is output)


def _reader(model: PreTrainedModel) -> nn.Module:
    """The part that reads the private text: the decoder of an encoder-decoder, else everything."""
    reader: nn.Module = model.get_decoder() if model.config.is_encoder_decoder else model
    return reader


def _word_embedding(model: PreTrainedModel) -> nn.Module:
    embedding: nn.Module = _reader(model).get_input_embeddings()  # type: ignore[operator]
    return embedding


def _position_embedding(model: PreTrainedModel) -> nn.Module | None:
    """The learned table of positions, where the model has one that is trained."""
    for path, module in _reader(model).named_modules():
        if path.rpartition(".")[2] in _POSITION_NAMES and isinstance(module, nn.Embedding):
            return module
    return None


def _output_layer(model: PreTrainedModel) -> nn.Module:
    """The vocabulary projection, or the last linear layer outside the body of a classifier."""
    projection: nn.Module | None = model.get_output_embeddings()
    if projection is not None:
        return projection
    body = {id(module) for module in model.base_model.modules()}
    heads = [m for m in model.modules() if isinstance(m, nn.Linear) and id(m) not in body]
    return heads[-1]
