"""The one-layer bidirectional LSTM classifier of the federated tasks (as in FedeVocab).

Written with linear layers and a loop over time instead of `torch.nn.LSTM`: fused kernels have no
second derivative, which gradient matching needs, and no per-sample gradient, which DP-SGD needs.
"""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import SequenceClassifierOutput


class BiLSTMConfig(PretrainedConfig):
    """Shape of the classifier; the paper has 300 hidden states and dropout 0.5."""

    model_type: ClassVar[str] = "leakboard-bilstm"

    vocab_size: int = 3000
    hidden_size: int = 96
    """Width of the word embedding."""
    state_size: int = 64
    """Hidden states of each direction."""
    dropout: float = 0.5
    initializer_range: float = 0.1
    pad_token_id: int | None = 0


class LSTM(nn.Module):
    """The weights of one direction. Gates in PyTorch's order: input, forget, cell, output."""

    def __init__(self, input_size: int, state_size: int) -> None:
        super().__init__()
        self.input_map = nn.Linear(input_size, 4 * state_size)
        self.state_map = nn.Linear(state_size, 4 * state_size, bias=False)


def states_of_both(
    forwards: LSTM, backwards: LSTM, inputs: Tensor, turned: Tensor
) -> tuple[Tensor, Tensor]:
    """States after each token, each direction on its own order of the inputs; two (B, T, H).

    Both take their steps together: on short texts the number of kernels is what costs.
    """
    mapped = torch.stack([forwards.input_map(inputs), backwards.input_map(turned)])  # (2, B, T, 4H)
    cell = state = mapped.new_zeros(2, mapped.shape[1], mapped.shape[3] // 4)  # (2, B, H)
    states = []
    for arriving in mapped.unbind(2):  # (2, B, 4H)
        ahead, back = state.unbind()
        gates = arriving + torch.stack([forwards.state_map(ahead), backwards.state_map(back)])
        enter, forget, _, leave = gates.sigmoid().chunk(4, dim=2)
        content = gates.chunk(4, dim=2)[2].tanh()
        cell = torch.addcmul(forget * cell, enter, content)
        state = leave * cell.tanh()
        states.append(state)
    ahead, back = torch.stack(states, dim=2).unbind()
    return ahead, back


def turned_within(inputs: Tensor, lengths: Tensor) -> Tensor:
    """The tokens of each text back to front, its padding still behind them; (B, T, D)."""
    places = torch.arange(inputs.shape[1], device=inputs.device).expand(inputs.shape[:2])  # (B, T)
    last = lengths[:, None] - 1
    source = torch.where(places <= last, last - places, places)  # (B, T)
    return inputs.gather(1, source[:, :, None].expand_as(inputs))


class BiLSTMPreTrainedModel(PreTrainedModel):
    """What body and classifier share: where the configuration and the weights belong."""

    config_class = BiLSTMConfig
    base_model_prefix = "bilstm"


class BiLSTMModel(BiLSTMPreTrainedModel):
    """Word embedding, the two directions, and their mean over the tokens of a text."""

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(
            config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id
        )
        self.forwards = LSTM(config.hidden_size, config.state_size)
        self.backwards = LSTM(config.hidden_size, config.state_size)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """One vector for each text, (B, 2H)."""
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)  # (B, T, D)
        if attention_mask is None:
            attention_mask = inputs_embeds.new_ones(inputs_embeds.shape[:2])
        mask = attention_mask.to(inputs_embeds.dtype)  # (B, T)
        lengths = attention_mask.sum(dim=1).long()  # (B,); padding is behind the tokens
        turned = turned_within(inputs_embeds, lengths)
        ahead, back = states_of_both(self.forwards, self.backwards, inputs_embeds, turned)
        states = torch.cat([ahead, turned_within(back, lengths)], dim=2) * mask[:, :, None]
        return states.sum(dim=1) / mask.sum(dim=1, keepdim=True)


class BiLSTMForSequenceClassification(BiLSTMPreTrainedModel):
    """The body with a linear classifier on top."""

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__(config)
        self.bilstm = BiLSTMModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(2 * config.state_size, config.num_labels or 2)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **unused: object,
    ) -> SequenceClassifierOutput:
        """Logits of the classes, (B, classes)."""
        pooled = self.bilstm(input_ids, attention_mask, inputs_embeds)
        return SequenceClassifierOutput(logits=self.classifier(self.dropout(pooled)))


AutoConfig.register(BiLSTMConfig.model_type, BiLSTMConfig, exist_ok=True)
AutoModelForSequenceClassification.register(
    BiLSTMConfig, BiLSTMForSequenceClassification, exist_ok=True
)
