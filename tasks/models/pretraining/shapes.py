"""The shapes of the builtin models: small enough for the repository, built like the real ones."""

from __future__ import annotations

from transformers import BertConfig, DistilBertConfig, GPT2Config, MarianConfig

from tasks.models.bilstm import BiLSTMConfig

WIDTH = 96
POSITIONS = 128
DEVIATION = 0.05
"""Of initial weights: 0.02 at BERT's width of 768 is as much as 0.057 at ours."""
GPT2_VOCABULARY = 2400
BERT_VOCABULARY = 2600
MARIAN_VOCABULARY = 2000


def gpt2(
    vocabulary: int,
    start: int,
    end: int,
    *,
    width: int = WIDTH,
    layers: int = 3,
    tied: bool = False,
) -> GPT2Config:
    """A GPT-2; unlike the real one its embeddings are untied unless asked for."""
    return GPT2Config(
        vocab_size=vocabulary,
        n_positions=POSITIONS,
        n_embd=width,
        n_layer=layers,
        n_head=4,
        initializer_range=DEVIATION,
        activation_function="gelu_pytorch_tanh",  # the same function as gelu_new, in one kernel
        tie_word_embeddings=tied,
        bos_token_id=start,
        eos_token_id=end,
    )


def bert(vocabulary: int) -> BertConfig:
    """A BERT of three layers."""
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=4 * WIDTH,
        initializer_range=DEVIATION,
        max_position_embeddings=POSITIONS,
        pad_token_id=0,
    )


def distilbert(vocabulary: int) -> DistilBertConfig:
    """A DistilBERT of two layers."""
    return DistilBertConfig(
        vocab_size=vocabulary,
        dim=WIDTH,
        n_layers=2,
        n_heads=4,
        hidden_dim=4 * WIDTH,
        initializer_range=DEVIATION,
        max_position_embeddings=POSITIONS,
        pad_token_id=0,
    )


def bilstm(vocabulary: int) -> BiLSTMConfig:
    """A bidirectional LSTM of one layer with 64 states each way (300 in the paper)."""
    return BiLSTMConfig(vocab_size=vocabulary, hidden_size=WIDTH, state_size=64, pad_token_id=0)


def marian(vocabulary: int) -> MarianConfig:
    """Two encoder and two decoder layers; source, target and output each have their own matrix.

    With a decoder embedding of its own, that gradient shows target tokens and nothing else.
    """
    return MarianConfig(
        vocab_size=vocabulary,
        d_model=WIDTH,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=2 * WIDTH,
        decoder_ffn_dim=2 * WIDTH,
        max_position_embeddings=POSITIONS,
        scale_embedding=True,
        init_std=DEVIATION,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=1,
    )
