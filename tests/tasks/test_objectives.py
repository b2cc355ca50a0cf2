"""Losses against plain loops, padding, embeddings in place of ids, and per-sample gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
)

from benchmark.spec import Batch
from tasks.models.bilstm import BiLSTMConfig, BiLSTMForSequenceClassification
from tasks.models.loading import freeze_to_buffers
from tasks.models.resolve import WEIGHTS
from tasks.models.tokenizers import open_tokenizer
from tasks.objectives import IGNORED, OBJECTIVES, pad

pytestmark = pytest.mark.usefixtures("one_thread")

VOCABULARY, WIDTH = 50, 16
LENGTHS = (7, 3, 5)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tiny matrices gain nothing from more threads, and lose much where cores are shared."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def build(kind: str) -> tuple[PreTrainedModel, str]:
    """A tiny random model in double precision, and its objective."""
    torch.manual_seed(0)
    small: dict[str, Any] = {"vocab_size": VOCABULARY, "attn_implementation": "eager"}
    classes: dict[str, Any] = {"num_labels": 3}
    models = {
        "gpt2": lambda: GPT2LMHeadModel(
            GPT2Config(**small, n_embd=WIDTH, n_layer=2, n_head=2, n_positions=16,
                       bos_token_id=0, eos_token_id=0)
        ),
        "llama": lambda: LlamaForCausalLM(
            LlamaConfig(**small, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=2,
                        num_attention_heads=2)
        ),
        "bert": lambda: BertForSequenceClassification(
            BertConfig(**small, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=2,
                       num_attention_heads=2, max_position_embeddings=16, **classes)
        ),
        "distilbert": lambda: DistilBertForSequenceClassification(
            DistilBertConfig(**small, dim=WIDTH, hidden_dim=32, n_layers=2, n_heads=2,
                             max_position_embeddings=16, **classes)
        ),
        "bilstm": lambda: BiLSTMForSequenceClassification(
            BiLSTMConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, state_size=8, **classes)
        ),
        "marian": lambda: MarianMTModel(
            MarianConfig(**small, d_model=WIDTH, encoder_layers=1, decoder_layers=1,
                         encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32,
                         decoder_ffn_dim=32, max_position_embeddings=16, scale_embedding=True,
                         share_encoder_decoder_embeddings=False, tie_word_embeddings=False,
                         pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
                         forced_eos_token_id=1)
        ),
    }  # fmt: skip
    objective = {"gpt2": "causal-lm", "llama": "causal-lm", "marian": "translation"}
    model = models[kind]().double().eval()
    freeze_to_buffers(model)
    return model, objective.get(kind, "classification")


KINDS = ("gpt2", "llama", "bert", "distilbert", "bilstm", "marian")


def batch_for(objective: str) -> Batch:
    """Three samples of unequal length."""
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(5, VOCABULARY, (n,), generator=generator).tolist() for n in LENGTHS]
    input_ids, mask = pad(rows, 0)
    if objective == "classification":
        return Batch(input_ids, mask, torch.tensor([2, 0, 1]))
    if objective == "causal-lm":
        return Batch(input_ids, mask, input_ids.masked_fill(mask == 0, IGNORED))
    return Batch(input_ids, mask, pad([row[::-1][:4] for row in rows], IGNORED)[0])


def single(batch: Batch, row: int) -> Batch:
    """One sample without any padding."""
    length = int(batch.attention_mask[row].sum())
    labels = batch.labels[row : row + 1]
    if labels.dim() == 2:
        labels = labels[:, : int((labels != IGNORED).sum())]
    return Batch(
        batch.input_ids[row : row + 1, :length],
        batch.attention_mask[row : row + 1, :length],
        labels,
    )


def reference_loss(model: PreTrainedModel, objective: str, sample: Batch) -> Tensor:
    """The loss of one unpadded sample, written as a loop over its tokens."""
    if objective == "classification":
        logits = model(input_ids=sample.input_ids).logits[0]
        return -logits.log_softmax(0)[sample.labels[0]]
    if objective == "causal-lm":
        logits, targets = model(input_ids=sample.input_ids).logits[0, :-1], sample.labels[0, 1:]
    else:
        shifted = torch.cat([torch.zeros(1, 1, dtype=torch.long), sample.labels[:, :-1]], dim=1)
        logits = model(input_ids=sample.input_ids, decoder_input_ids=shifted).logits[0]
        targets = sample.labels[0]
    terms = [-row.log_softmax(0)[target] for row, target in zip(logits, targets, strict=True)]
    return torch.stack(terms).mean()


@pytest.mark.parametrize("kind", KINDS)
def test_losses_equal_a_loop_over_unpadded_samples(kind: str) -> None:
    model, name = build(kind)
    batch = batch_for(name)
    expected = [reference_loss(model, name, single(batch, row)) for row in range(len(LENGTHS))]
    found = OBJECTIVES[name].losses(model, batch)
    torch.testing.assert_close(found, torch.stack(expected))
    torch.testing.assert_close(OBJECTIVES[name].loss(model, batch), torch.stack(expected).mean())


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "bilstm"])
def test_a_single_sample_has_the_loss_that_transformers_computes(kind: str) -> None:
    model, name = build(kind)
    sample = single(batch_for(name), 0)
    theirs = model(
        input_ids=sample.input_ids, attention_mask=sample.attention_mask, labels=sample.labels
    ).loss
    found = OBJECTIVES[name].loss(model, sample)
    torch.testing.assert_close(found.float(), theirs.float())  # they compute it in single precision


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_may_replace_ids(kind: str) -> None:
    model, name = build(kind)
    batch = batch_for(name)
    words: Any = model.get_input_embeddings()
    embedded = words(batch.input_ids)
    torch.testing.assert_close(
        OBJECTIVES[name].losses(model, batch, embedded), OBJECTIVES[name].losses(model, batch)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives_exist(kind: str) -> None:
    """Gradient matching differentiates a gradient with respect to the embeddings."""
    model, name = build(kind)
    batch = batch_for(name)
    words: Any = model.get_input_embeddings()
    embedded = words(batch.input_ids).detach().requires_grad_()
    loss = OBJECTIVES[name].loss(model, batch, embedded)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss, parameters, create_graph=True, allow_unused=True)
    total = torch.stack([g.square().sum() for g in gradients if g is not None]).sum()
    (second,) = torch.autograd.grad(total, embedded)
    assert second.isfinite().all()
    assert second.abs().sum() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_trainable(kind: str) -> None:
    model, _ = build(kind)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not any("embed_positions" in n for n, _ in model.named_parameters() if kind == "marian")


@pytest.mark.parametrize("kind", ["gpt2", "bert", "distilbert", "bilstm"])
def test_opacus_finds_the_gradient_of_each_sample(kind: str) -> None:
    from opacus import GradSampleModule

    model, name = build(kind)
    batch = batch_for(name)
    expected = []
    for row in range(len(LENGTHS)):
        loss = OBJECTIVES[name].loss(model, single(batch, row))
        expected.append(torch.autograd.grad(loss, list(model.parameters())))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    wrapped = GradSampleModule(model.train(), loss_reduction="mean")
    OBJECTIVES[name].loss(wrapped, batch).backward()
    for index, (path, parameter) in enumerate(model.named_parameters()):
        each = torch.stack([gradients[index] for gradients in expected])
        found = vars(parameter)["grad_sample"]
        torch.testing.assert_close(found, each, rtol=1e-6, atol=1e-9, msg=path)


def test_the_recurrence_is_that_of_torch() -> None:
    """Both directions with padding, against `nn.LSTM` on packed sequences."""
    model, _ = build("bilstm")
    batch = batch_for("classification")
    reference = torch.nn.LSTM(WIDTH, 8, batch_first=True, bidirectional=True).double()
    with torch.no_grad():
        for suffix, name in (("", "bilstm.forwards"), ("_reverse", "bilstm.backwards")):
            part = model.get_submodule(name).get_parameter
            reference.get_parameter(f"weight_ih_l0{suffix}").copy_(part("input_map.weight"))
            reference.get_parameter(f"weight_hh_l0{suffix}").copy_(part("state_map.weight"))
            reference.get_parameter(f"bias_ih_l0{suffix}").copy_(part("input_map.bias"))
            reference.get_parameter(f"bias_hh_l0{suffix}").zero_()
    words: Any = model.get_input_embeddings()
    embedded = words(batch.input_ids)
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        embedded, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False
    )
    states, lengths = torch.nn.utils.rnn.pad_packed_sequence(reference(packed)[0], batch_first=True)
    expected = states.sum(dim=1) / lengths[:, None]
    body = model.get_submodule("bilstm")
    torch.testing.assert_close(body(batch.input_ids, batch.attention_mask), expected)


# ------------------------------------------------------------------------------------- encoding


def test_language_models_read_text_between_end_tokens() -> None:
    tokenizer = open_tokenizer(WEIGHTS / "gpt2-finetuned")
    texts = ["The river flows north.", "Yes."]
    batch = OBJECTIVES["causal-lm"].encode(tokenizer, texts, None, None, 64)
    end = tokenizer.eos_token_id
    assert batch.input_ids[0].tolist() == [
        end, *tokenizer.encode(texts[0], add_special_tokens=False), end
    ]  # fmt: skip
    assert tokenizer(texts[0]).input_ids == batch.input_ids[0].tolist()
    padding = batch.attention_mask[1] == 0
    assert (batch.labels[1][padding] == IGNORED).all()
    assert torch.equal(batch.labels[1][~padding], batch.input_ids[1][~padding])
    assert batch.labels[1][~padding][-1] == end, "the end token is predicted, though it pads too"


def test_classifiers_read_what_the_tokenizer_adds() -> None:
    tokenizer = open_tokenizer(WEIGHTS / "bert-pretrained")
    batch = OBJECTIVES["classification"].encode(
        tokenizer, ["A good film.", "Bad"], [1, 0], None, 64
    )
    assert batch.labels.tolist() == [1, 0]
    assert batch.input_ids[:, 0].tolist() == [tokenizer.cls_token_id] * 2
    last = batch.attention_mask.sum(dim=1) - 1
    assert batch.input_ids[[0, 1], last].tolist() == [tokenizer.sep_token_id] * 2


def test_translation_puts_the_source_in_and_asks_for_the_target() -> None:
    tokenizer = open_tokenizer(WEIGHTS / "marian-finetuned")
    batch = OBJECTIVES["translation"].encode(
        tokenizer, ["The answer.", "I am here now."], None, ["Die Antwort.", "Ich bin da."], 64
    )
    assert tokenizer.decode(batch.input_ids[0], skip_special_tokens=True) == "Die Antwort."
    target = batch.labels[0][batch.labels[0] != IGNORED]
    assert tokenizer.decode(target, skip_special_tokens=True) == "The answer."
    assert target[-1] == tokenizer.eos_token_id


@pytest.mark.parametrize(
    ("objective", "model"),
    [("causal-lm", "gpt2-finetuned"), ("classification", "bert-pretrained")],
)
def test_long_texts_are_cut_and_keep_their_end(objective: str, model: str) -> None:
    tokenizer = open_tokenizer(WEIGHTS / model)
    whole = OBJECTIVES[objective].encode(tokenizer, ["word " * 50], None, None, 64)
    batch = OBJECTIVES[objective].encode(tokenizer, ["word " * 50], None, None, 12)
    assert batch.input_ids.shape == (1, 12)
    assert batch.input_ids[0, 0] == whole.input_ids[0, 0]
    assert batch.input_ids[0, -1] == whole.input_ids[0, -1]


def test_token_losses_ignore_what_is_not_predicted() -> None:
    from tasks.objectives import token_losses

    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[1, 2, 3], [4, IGNORED, IGNORED]])
    found = token_losses(logits, labels)
    torch.testing.assert_close(found[0], functional.cross_entropy(logits[0], labels[0]))
    torch.testing.assert_close(found[1], functional.cross_entropy(logits[1, :1], labels[1, :1]))
