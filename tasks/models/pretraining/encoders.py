"""Recipes of the classifiers' bodies: BERT, its CoLA classifier, DistilBERT and the BiLSTM."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.nn import functional
from transformers import BertForPreTraining, BertForSequenceClassification, DistilBertForMaskedLM

from benchmark.spec import Batch
from tasks.corpora import builtin
from tasks.corpora.base import Row, Split
from tasks.models.bilstm import BiLSTMForSequenceClassification
from tasks.models.heads import draw_head
from tasks.models.pretraining import shapes
from tasks.models.pretraining.language import OWN, REVIEWS
from tasks.models.pretraining.loop import Schedule, fit
from tasks.models.pretraining.masking import masked, spliced
from tasks.models.pretraining.measure import (
    MAX_TOKENS,
    accuracy,
    masked_perplexity,
    matthews,
    predictions,
    word_logits,
)
from tasks.models.pretraining.reading import READINGS, builtin_rows
from tasks.models.pretraining.text import CLASSIFICATION, FEDERATED, rows, texts
from tasks.models.pretraining.workshop import Score, Story, Trained, Workshop, round_to_half
from tasks.objectives import IGNORED, OBJECTIVES

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

OBJECTIVE = OBJECTIVES["classification"]
STEPS = "masked-word steps, starting with the embeddings of prior-gpt2"

BERT = Schedule(steps=3500, rate=1e-3, warmup=100, seed=21)
COLA = Schedule(steps=1000, rate=3e-4, seed=22)
DISTILBERT = Schedule(steps=3000, rate=1e-3, warmup=100, seed=23)
BILSTM = Schedule(steps=150, rate=3e-3, seed=24)
GLOVE_SPREAD = 4.0
"""By which the BiLSTM's word vectors are stretched, to a spread of 0.43 (GloVe's: 0.69): a
step of Adam is as long for small vectors as for large ones. A power of two, so that hardly
anything is rounded.
"""


def bert_pretrained(shop: Workshop) -> Trained:
    """The body after masked words and spliced sentences; heads are drawn fresh by the tasks."""
    sentences = shop.text("bert-pretrained")
    tokenizer = shop.tokenizer("prior-gpt2")
    config = shapes.bert(len(tokenizer))
    model, untrained = _twins(lambda: BertForPreTraining(config), BERT.seed)
    _lend_embeddings(shop, model)
    made, marks = spliced(sentences, share=0.25, seed=BERT.seed)
    data = OBJECTIVE.encode(tokenizer, made, marks, None, MAX_TOKENS)
    schedule = shop.schedule(BERT)
    fit(model, data, lambda batch, g: _masked_loss(model, batch, g, splices=True), schedule)
    words = f"{schedule.steps} {STEPS}"
    story = Story(words, READINGS["bert-pretrained"].words, REVIEWS, schedule)
    scores = _masked_scores(model, untrained, tokenizer, (*CLASSIFICATION, *FEDERATED))
    return Trained(model.bert, tokenizer, story, scores)


def bert_cola(shop: Workshop) -> Trained:
    """`bert-pretrained` fine-tuned to tell acceptable sentences."""
    tokenizer = shop.tokenizer("prior-gpt2")
    model = shop.model("bert-pretrained", "classification", num_labels=2)
    draw_head(model, set(), COLA.seed)
    schedule = shop.schedule(COLA)
    _fit_classes(model, tokenizer, builtin_rows("bert-cola"), schedule)
    _, untrained = _twins(lambda: BertForSequenceClassification(model.config), COLA.seed)
    story = Story(
        f"bert-pretrained and {schedule.steps} steps more", READINGS["bert-cola"].words,
        REVIEWS, schedule,
    )  # fmt: skip
    return Trained(model, tokenizer, story, _class_scores(model, untrained, tokenizer, "cola"))


def distilbert(shop: Workshop) -> Trained:
    """The body after masked words, without a teacher."""
    tokenizer = shop.tokenizer("prior-gpt2")
    config = shapes.distilbert(len(tokenizer))
    model, untrained = _twins(lambda: DistilBertForMaskedLM(config), DISTILBERT.seed)
    _lend_embeddings(shop, model)
    data = OBJECTIVE.encode(tokenizer, shop.text("distilbert"), None, None, MAX_TOKENS)
    schedule = shop.schedule(DISTILBERT)
    fit(model, data, lambda batch, g: _masked_loss(model, batch, g, splices=False), schedule)
    words = f"{schedule.steps} {STEPS}"
    story = Story(words, READINGS["distilbert"].words, REVIEWS, schedule)
    scores = _masked_scores(model, untrained, tokenizer, FEDERATED)
    return Trained(model.distilbert, tokenizer, story, scores)


def bilstm(shop: Workshop) -> Trained:
    """The body after telling the classes of all federated corpora at once, for a short while."""
    tokenizer = shop.tokenizer("prior-gpt2")
    config = shapes.bilstm(len(tokenizer))
    config.num_labels = sum(len(builtin.label_names(name)) for name in FEDERATED)
    model, untrained = _twins(lambda: BiLSTMForSequenceClassification(config), BILSTM.seed)
    schedule = shop.schedule(BILSTM)
    _fit_classes(model, tokenizer, _joint_rows("public"), schedule)
    _stretch_table(model, GLOVE_SPREAD)
    round_to_half(model)
    test = _joint_rows("test")
    story = Story(
        f"{schedule.steps} steps on the classes of all federated corpora; word vectors stretched",
        READINGS["bilstm"].words, OWN, schedule,
    )  # fmt: skip
    values = (_accuracy(m, tokenizer, test) for m in (model, untrained))
    return Trained(
        model.bilstm, tokenizer, story, (Score("+".join(FEDERATED), "accuracy", *values),)
    )


def _stretch_table(model: BiLSTMForSequenceClassification, factor: float) -> None:
    """Larger word vectors, read by weights that are smaller by as much: the same function."""
    body = model.bilstm
    with torch.no_grad():
        body.embed_tokens.weight.mul_(factor)
        for direction in (body.forwards, body.backwards):
            direction.input_map.weight.div_(factor)


Model = TypeVar("Model", bound="PreTrainedModel")


def _twins(make: Callable[[], Model], seed: int) -> tuple[Model, Model]:
    """Two equal models from one random start: one to train, one to compare with."""
    torch.manual_seed(seed)
    one = make()
    torch.manual_seed(seed)
    return one, make().eval()


def _lend_embeddings(shop: Workshop, model: Any) -> None:
    """Start with the embeddings of the prior: masked words alone take thousands of steps longer."""
    lender: Any = shop.model("prior-gpt2", "causal-lm").base_model
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(lender.wte.weight)
        model.base_model.embeddings.position_embeddings.weight.copy_(lender.wpe.weight)


def _masked_loss(model: Any, batch: Batch, generator: torch.Generator, splices: bool) -> Tensor:
    """Loss of the hidden words, whose logits alone are computed, and of the splices."""
    ids, labels = masked(batch, model.config.vocab_size, generator)
    output = model.base_model(input_ids=ids, attention_mask=batch.attention_mask)
    selected = labels != IGNORED  # (B, T)
    logits = word_logits(model, output.last_hidden_state[selected])  # (hidden words, V)
    loss = functional.cross_entropy(logits, labels[selected])
    if splices:
        verdict = model.cls.seq_relationship(output.pooler_output)  # (B, 2)
        loss = loss + functional.cross_entropy(verdict, batch.labels)
    return loss


def _masked_scores(
    model: PreTrainedModel,
    untrained: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    corpora: tuple[str, ...],
) -> tuple[Score, ...]:
    round_to_half(model)
    scores = []
    for name in corpora:
        text = texts((name,), "test")
        values = (masked_perplexity(m, tokenizer, text) for m in (model, untrained))
        scores.append(Score(name, "masked-word perplexity", *values))
    return tuple(scores)


def _class_scores(
    model: PreTrainedModel,
    untrained: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    corpus: str,
) -> tuple[Score, ...]:
    """Accuracy and Matthews correlation; the majority's share stands beside them."""
    round_to_half(model)
    test = rows((corpus,), "test")
    true = _labels(test)
    found, blind = (predictions(m, tokenizer, [r.text for r in test]) for m in (model, untrained))
    majority = Counter(true).most_common(1)[0][1] / len(true)
    return (
        Score(corpus, "accuracy", accuracy(found, true), accuracy(blind, true)),
        Score(corpus, "matthews", matthews(found, true), matthews(blind, true)),
        Score(corpus, "accuracy above the majority's", accuracy(found, true) - majority, 0.0),
    )


def _accuracy(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, test: Sequence[Row]
) -> float:
    return accuracy(predictions(model, tokenizer, [r.text for r in test]), _labels(test))


def _labels(some: Sequence[Row]) -> list[int]:
    return [row.label or 0 for row in some]


def _fit_classes(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    some: Sequence[Row],
    schedule: Schedule,
) -> None:
    data = OBJECTIVE.encode(tokenizer, [r.text for r in some], _labels(some), None, MAX_TOKENS)
    fit(model, data, lambda batch, _: OBJECTIVE.loss(model, batch), schedule)


def _joint_rows(split: Split) -> list[Row]:
    """Rows of all federated corpora with their classes numbered one after the other."""
    joint, first = [], 0
    for name in FEDERATED:
        joint += [Row(r.text, (r.label or 0) + first) for r in rows((name,), split)]
        first += len(builtin.label_names(name))
    return joint
