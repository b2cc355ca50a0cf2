"""Where a transformer keeps the linear layers whose inputs DAGER reads, and how to see them.

A model is never rebuilt here: its own forward pass runs, the inputs of the layers in question are
caught on the way, and the pass ends as soon as the last of them is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.pytorch_utils import Conv1D


@dataclass(frozen=True)
class Shape:
    """Module names of one architecture; `{}` stands for the number of the layer."""

    layer: str
    attend: tuple[str, ...]
    """The projections that read the attention's input: query first, or one that is fused."""
    merge: str
    """The projection that reads the heads' outputs."""
    expand: tuple[str, ...]
    """The first projections of the feed-forward part."""
    causal: bool
    norm: str
    """The normalization between embeddings and the first attention."""
    position: str = ""
    token_type: str = ""
    after_padding: bool = False
    """Positions are counted from the one after the padding's, as RoBERTa began to do."""


_BERT = Shape(
    layer="encoder.layer.{}.",
    attend=("attention.self.query", "attention.self.key", "attention.self.value"),
    merge="attention.output.dense",
    expand=("intermediate.dense",),
    causal=False,
    norm="embeddings.LayerNorm",
    position="embeddings.position_embeddings",
    token_type="embeddings.token_type_embeddings",
)
_LLAMA = Shape(
    layer="layers.{}.",
    attend=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    merge="self_attn.o_proj",
    expand=("mlp.gate_proj", "mlp.up_proj"),
    causal=True,
    norm="layers.0.input_layernorm",
)
_SHAPES: Mapping[str, Shape] = {
    "bert": _BERT,
    "distilbert": Shape(
        layer="transformer.layer.{}.",
        attend=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        merge="attention.out_lin",
        expand=("ffn.lin1",),
        causal=False,
        norm="embeddings.LayerNorm",
        position="embeddings.position_embeddings",
    ),
    "mpnet": Shape(
        layer="encoder.layer.{}.",
        attend=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
        merge="attention.attn.o",
        expand=("intermediate.dense",),
        causal=False,
        norm="embeddings.LayerNorm",
        position="embeddings.position_embeddings",
        after_padding=True,
    ),
    "gpt2": Shape(
        layer="h.{}.",
        attend=("attn.c_attn",),
        merge="attn.c_proj",
        expand=("mlp.c_fc",),
        causal=True,
        norm="h.0.ln_1",
        position="wpe",
    ),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
}


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
    """The model is not of a kind whose attention is known here."""


class _Seen(Exception):
    """All sites have been seen, so the rest of the forward pass is not needed."""


class Anatomy:
    """A model, seen as embeddings, a first attention, and the sites behind it."""

    def __init__(self, model: Any) -> None:
        kind = model.config.model_type
        if kind not in _SHAPES:
            raise NoAttention(f"A model of type {kind} has no attention that this attack reads.")
        self.model = model
        self.body: Any = model.base_model
        self.shape = _SHAPES[kind]
        self._names = {id(module): name for name, module in model.named_modules()}
        self.layers = int(model.config.num_hidden_layers)
        self.width = int(model.config.hidden_size)
        self.first = self.attention(0)

    def behind(self, reads_all: bool) -> list[Site]:
        """Sites whose inputs depend on whole sentences: heads, feed-forward, second attention.

        In the last layer of a classifier only one position is read (`reads_all` is false), so the
        gradients there do not span the inputs of the others.
        """
        whole = self.layers if reads_all else self.layers - 1
        sites = []
        if whole > 0:
            sites += [self._site(0, (self.shape.merge,)), self._site(0, self.shape.expand)]
        if whole > 1:
            sites.append(self.attention(1))
        return sites

    def attention(self, layer: int) -> Site:
        """The projections that read a layer's input."""
        return self._site(layer, self.shape.attend)

    def _site(self, layer: int, parts: Sequence[str]) -> Site:
        prefix = self.shape.layer.format(layer)
        modules = [self.body.get_submodule(prefix + part) for part in parts]
        names = tuple(f"{self._names[id(module)]}.weight" for module in modules)
        return Site(modules[0], names, isinstance(modules[0], Conv1D))

    @property
    def heads(self) -> int:
        """Attention heads of a layer."""
        return int(self.model.config.num_attention_heads)

    def projections(self) -> list[Any]:
        """Query, key and value of an encoder's first layer."""
        return [self.module(self.shape.layer.format(0) + part) for part in self.shape.attend]

    def position_bias(self, length: int) -> Tensor | None:
        """What an encoder with relative positions adds to its scores, (H, length, length)."""
        if self.model.config.model_type != "mpnet":
            return None
        bias: Tensor = self.body.encoder.compute_position_bias(
            self.body.encoder.relative_attention_bias.weight.new_zeros(1, length, 1)
        )[0]
        return bias

    def module(self, name: str) -> Any:
        """A module of the body by the name that the shape gives."""
        return self.body.get_submodule(name)

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
        except _Seen:
            pass
        finally:
            for handle in handles:
                handle.remove()
        return [caught[id(site.module)] for site in sites]


def _catcher(
    site: Site, sites: Sequence[Site], caught: dict[int, Tensor]
) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    def catch(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        caught[id(site.module)] = arguments[0]
        if len(caught) == len(sites):
            raise _Seen

    return catch
