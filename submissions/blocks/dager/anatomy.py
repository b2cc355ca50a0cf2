"""Where a transformer keeps the linear layers whose inputs DAGER reads, and how to see them.

Nothing is known of a model beforehand: one forward pass of a few tokens shows which linear layers
read what (`trace.py`), and what is concluded from it is checked against the model itself. A model
is never rebuilt here: its own forward pass runs, the inputs of the layers in question are caught
on the way, and the pass ends as soon as the last of them is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.pytorch_utils import Conv1D

from submissions.blocks.dager.trace import Projection, Seen, Trace, trace

_PROBE = 5
"""Tokens of the sentence that a model is tried with."""
_SAME = 1e-4
"""Relative difference up to which two ways to compute the same thing agree."""


@dataclass(frozen=True)
class Site:
    """Linear layers with one common input."""

    module: nn.Module
    """The first of them, at which the input is caught."""
    weights: tuple[str, ...]
    """Their weights' parameter names."""
    transposed: bool
    """Weights of shape (in, out) instead of (out, in)."""


class NoAttention(Exception):
    """The model is not of a kind that can be read; the message is the reason."""


class Anatomy:
    """A model, seen as embeddings, a first attention, and the sites behind it."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.body: Any = model.base_model
        self.kind = f"a model of type {model.config.model_type}"
        self.probe = self._ordinary_ids()
        self.seen: Trace = trace(model, self.body, self.probe)
        read = self.seen.of_layer(0)
        if len(read) < 2:
            raise NoAttention(f"There is no attention to be read in {self.kind}.")
        self._behind = [_site(reading) for reading in (*read[1:3], *self.seen.of_layer(1)[:1])]
        self.attend = read[0]
        """The projections that read the first attention's input: query, key and value, or one
        that is fused."""
        self.first = _site(read[0])
        self.width = int(read[0].given.shape[-1])
        self.layers = _count(model, read[0].layer)
        self.causal = self._is_causal()
        if self.causal:
            self._check_cache()

    def behind(self, reads_all: bool) -> list[Site]:
        """Sites whose inputs depend on whole sentences: heads, feed-forward, second attention.

        In the last layer of a classifier only one position is read (`reads_all` is false), so the
        gradients there do not span the inputs of the others.
        """
        whole = self.layers if reads_all else self.layers - 1
        return self._behind[: 0 if whole < 1 else 2 if whole < 2 else None]

    def attention(self, layer: int) -> Site:
        """The projections that read a layer's input: in every layer those of the first one."""
        first = self.attend.layer
        here = f"{first.rstrip('.').rpartition('.')[0]}.{layer}."
        names = [here + name.removeprefix(first) for name in self.attend.names]
        try:
            modules = [self.model.get_submodule(name) for name in names]
        except AttributeError as error:
            raise NoAttention(f"Layers differ from one another in {self.kind}.") from error
        return _site(Projection(names, modules, self.attend.given, here))

    @torch.inference_mode()
    def inputs(
        self, ids: Tensor, sites: Sequence[Site], cache: DynamicCache | None = None
    ) -> list[Tensor]:
        """Inputs of the sites for unpadded sentences (N, T), each (N, T, D).

        With a `cache`, `ids` continue the prefixes in it, and the first layer's keys and values
        are added to it.
        """
        caught: dict[int, Tensor] = {}
        handles = [site.module.register_forward_pre_hook(_catcher(site, sites, caught))
                   for site in sites]  # fmt: skip
        before = 0 if cache is None else cache.get_seq_length()
        mask = ids.new_ones(ids.shape[0], before + ids.shape[1])
        more = {} if cache is None else {"past_key_values": cache, "use_cache": True}
        try:
            self.body(input_ids=ids, attention_mask=mask, **more)
        except Seen:
            pass
        finally:
            for handle in handles:
                handle.remove()
        return [caught[id(site.module)].view(*ids.shape, -1) for site in sites]

    # ------------------------------------------------------------------------------ trying it out

    def _ordinary_ids(self) -> Tensor:
        """Some ids from the middle of the vocabulary, none of which means padding, (1, T)."""
        table: Tensor = self.body.get_input_embeddings().weight
        ids = torch.arange(len(table) // 2, len(table) // 2 + _PROBE + 1) % len(table)
        kept = [i for i in ids.tolist() if i != self.model.config.pad_token_id]
        return torch.tensor([kept[:_PROBE]], device=table.device)

    def _is_causal(self) -> bool:
        """Whether what is read of earlier tokens stays the same when the last one changes."""
        ids = torch.cat([self.probe, self.probe])
        ids[1, -1] = self.probe[0, 0]
        heads = self.inputs(ids, self._behind[:1])[0][:, :-1]
        return agree(heads[0], heads[1])

    def _check_cache(self) -> None:
        """Prefixes are continued with their keys and values; the answer has to be the same."""
        whole = self.inputs(self.probe, self._behind[:1])[0][:, -1]
        cache = DynamicCache()
        try:
            self.inputs(self.probe[:, :-1], self._behind[:1], cache)
            first: Any = cache.layers[0]
            cut = DynamicCache()
            cut.update(first.keys, first.values, 0)
            last = self.inputs(self.probe[:, -1:], self._behind[:1], cut)[0][:, -1]
        except (AttributeError, IndexError, TypeError, ValueError, RuntimeError) as error:
            raise NoAttention(f"Prefixes cannot be continued in {self.kind}.") from error
        if not agree(whole, last):
            raise NoAttention(f"A continued prefix is read in another way in {self.kind}.")


def agree(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors are the same but for rounding."""
    return bool((first - second).norm() <= _SAME * second.norm())


def _site(reading: Projection) -> Site:
    weights = tuple(f"{name}.weight" for name in reading.names)
    return Site(reading.modules[0], weights, isinstance(reading.modules[0], Conv1D))


def _count(model: nn.Module, layer: str) -> int:
    """Layers in the list that holds the one with this path, `encoder.layer.0.`."""
    return len(list(model.get_submodule(layer.rstrip(".").rpartition(".")[0]).children()))


def _catcher(
    site: Site, sites: Sequence[Site], caught: dict[int, Tensor]
) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    def catch(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        caught[id(site.module)] = arguments[0]
        if len(caught) == len(sites):
            raise Seen

    return catch
