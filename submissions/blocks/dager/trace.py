"""One forward pass of a model, written down up to the second layer's attention.

Modules are recognized by what they do and not by what they are called: which tables are looked up
with which numbers, and which linear layers read which inputs, in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers.pytorch_utils import Conv1D

_LAYER = re.compile(r"^(.*?\.)?(\d+)\.")
"""The path of a layer: up to the first number, which is its place in a list of layers."""


@dataclass(frozen=True)
class Lookup:
    """Rows that were taken from a table of embeddings."""

    table: Tensor  # (rows, D)
    rows: Tensor


@dataclass(frozen=True)
class Normalization:
    """One call of a module that normalizes."""

    module: nn.Module
    given: Tensor
    made: Tensor


@dataclass(frozen=True)
class Projection:
    """Linear layers that read the same input, one after another."""

    names: list[str]
    modules: list[nn.Module]
    given: Tensor
    layer: str
    """Path of the layer that they belong to; empty outside of all layers."""


@dataclass
class Trace:
    """What a forward pass did, in order."""

    lookups: list[Lookup] = field(default_factory=list)
    """Until the first layer read something."""
    normalizations: list[Normalization] = field(default_factory=list)
    """Likewise."""
    readings: list[Projection] = field(default_factory=list)

    def of_layer(self, number: int) -> list[Projection]:
        """What the first or the second layer read; nothing where there is no such layer."""
        paths = list(dict.fromkeys(r.layer for r in self.readings if r.layer))
        return [r for r in self.readings if number < len(paths) and r.layer == paths[number]]


class Seen(Exception):
    """All that was wanted has been seen, so the rest of a forward pass is not needed."""


@torch.no_grad()
def trace(model: nn.Module, body: Any, ids: Tensor) -> Trace:
    """Write down what `body`, a part of `model`, does with unpadded sentences (N, T)."""
    found = Trace()
    with _hooks(_watchers(model, found)), _Lookups(found), suppress(Seen):
        body(input_ids=ids, attention_mask=torch.ones_like(ids))
    return found


Watchers = Mapping[nn.Module, Callable[..., None]]


def _watchers(model: nn.Module, found: Trace) -> Watchers:
    """What is called around the forward pass of each linear layer and each normalization."""
    watchers: dict[nn.Module, Callable[..., None]] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | Conv1D):
            watchers[module] = _reader(name, found)
        elif "Norm" in type(module).__name__ and not any(module.children()):
            watchers[module] = _normalizer(found)
    return watchers


def _reader(name: str, found: Trace) -> Callable[..., None]:
    match = _LAYER.match(name)
    layer = match.group() if match else ""

    def watch(module: nn.Module, arguments: tuple[Tensor, ...], _: object) -> None:
        last = found.readings[-1] if found.readings else None
        given = arguments[0]
        if last is not None and last.layer == layer and _is_same(last.given, given):
            last.names.append(name)
            last.modules.append(module)
            return
        if found.of_layer(1):  # its attention has been read, and this is something else
            raise Seen
        found.readings.append(Projection([name], [module], given, layer))

    return watch


def _normalizer(found: Trace) -> Callable[..., None]:
    def watch(module: nn.Module, arguments: tuple[Tensor, ...], made: Tensor) -> None:
        if not found.of_layer(0):
            found.normalizations.append(Normalization(module, arguments[0], made))

    return watch


class _Lookups(TorchFunctionMode):
    """Sees every lookup, also those of modules whose own arguments are no row numbers."""

    def __init__(self, found: Trace) -> None:
        super().__init__()
        self.found = found

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> object:
        if func is functional.embedding and not self.found.of_layer(0):
            self.found.lookups.append(Lookup(args[1], args[0]))
        return func(*args, **(kwargs or {}))


@contextmanager
def _hooks(watchers: Watchers) -> Iterator[None]:
    handles = [module.register_forward_hook(watch) for module, watch in watchers.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _is_same(first: Tensor, second: Tensor) -> bool:
    return first.data_ptr() == second.data_ptr() and first.shape == second.shape
