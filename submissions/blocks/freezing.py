"""Which parameters a client leaves as they are, and so never sends."""

from __future__ import annotations

from benchmark.spec import Role, Roles


def is_word_embedding(parameter: str, roles: Roles) -> bool:
    """Whether a parameter holds word vectors; an encoder's count like the decoder's."""
    return _last(parameter) == _last(roles.names[Role.WORD_EMBEDDING])


def is_output(parameter: str, roles: Roles) -> bool:
    """Whether a parameter belongs to the last linear layer, its bias included."""
    layer = roles.names[Role.OUTPUT].rpartition(".")[0]
    return parameter.rpartition(".")[0] == layer


def _last(parameter: str) -> str:
    """Layer and parameter without the path to them, `embed_tokens.weight`."""
    return ".".join(parameter.split(".")[-2:])
