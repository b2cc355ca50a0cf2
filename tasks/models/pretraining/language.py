"""Recipes of the language models: six GPT-2 and the prior over BERT's vocabulary."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from transformers import GPT2LMHeadModel

from tasks.corpora import builtin
from tasks.models.pretraining import shapes
from tasks.models.pretraining.loop import Schedule, fit
from tasks.models.pretraining.measure import MAX_TOKENS, perplexity
from tasks.models.pretraining.reading import READINGS
from tasks.models.pretraining.text import (
    CLASSIFICATION,
    FEDERATED,
    FINE_TUNED,
    LANGUAGE,
    texts,
)
from tasks.models.pretraining.vocabulary import bert_tokenizer, gpt2_tokenizer
from tasks.models.pretraining.workshop import Score, Story, Trained, Workshop, round_to_half
from tasks.objectives import OBJECTIVES, boundary_ids

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

OWN = "project's own text"
MIXED = "project's own text, WikiText (CC BY-SA) and Rotten Tomatoes (CC BY 4.0)"
REVIEWS = "project's own text and Rotten Tomatoes (CC BY 4.0)"

PRETRAINING = Schedule(steps=1500, rate=2e-3, seed=11)
FINE_TUNING = Schedule(steps=1500, rate=1e-3, seed=12)
MEMORIZING = Schedule(steps=600, rate=1e-3, seed=16)
SCRATCH = Schedule(steps=50, rate=1e-3, warmup=10, seed=13)
TIED = Schedule(steps=1500, rate=3e-3, seed=14)
PRIOR = Schedule(steps=2000, rate=2e-3, seed=15)


def pretrained(shop: Workshop) -> Trained:
    """Real text alone: good, but not at home in any domain. The vocabulary knows them all."""
    wikitext = shop.real.sentences("wikitext")
    tokenizer = gpt2_tokenizer([*wikitext, *texts(LANGUAGE)], shapes.GPT2_VOCABULARY)
    model = _fresh(tokenizer, PRETRAINING.seed)
    schedule = shop.schedule(PRETRAINING)
    _train(model, tokenizer, shop.text("gpt2-pretrained"), schedule)
    story = _story("gpt2-pretrained", f"{schedule.steps} steps from a random start", schedule)
    return _finished(model, tokenizer, story, LANGUAGE)


def finetuned(shop: Workshop) -> Trained:
    """`gpt2-pretrained` at home in wikitext and enron; imdb and agnews-lm stay unseen."""
    schedule = shop.schedule(FINE_TUNING)
    return _continue(shop, "gpt2-finetuned", f"{schedule.steps} steps more", schedule)


def halfway(shop: Workshop) -> Trained:
    """`gpt2-finetuned` while it is being fine-tuned: the same steps, half of them."""
    schedule = shop.schedule(FINE_TUNING)
    taken = schedule.steps // 2
    words = f"the first {taken} of the {schedule.steps} steps of gpt2-finetuned"
    return _continue(shop, "gpt2-halfway", words, schedule, taken)


def memorized(shop: Workshop) -> Trained:
    """`gpt2-finetuned` trained on the private rows themselves: the setting of FILM's paper."""
    schedule = shop.schedule(MEMORIZING)
    words = f"{schedule.steps} steps on the private rows"
    trained = _continue(shop, "gpt2-memorized", words, schedule)
    known = []
    for corpus in FINE_TUNED:
        text = [row.text for row in builtin.load(corpus, "private")]
        fresh = _from_config(trained.model.config, schedule.seed).eval()
        values = (perplexity(m, trained.tokenizer, text) for m in (trained.model, fresh))
        known.append(Score(f"{corpus}, private rows", "perplexity", *values))
    return replace(trained, scores=(*known, *trained.scores))


def _continue(
    shop: Workshop, name: str, words: str, schedule: Schedule, stop: int | None = None
) -> Trained:
    """Train the model further that this one is said to come after."""
    before = READINGS[name].after
    assert before is not None
    tokenizer = shop.tokenizer("gpt2-pretrained")
    model = shop.model(before, "causal-lm")
    _train(model, tokenizer, shop.text(name), schedule, stop)
    return _finished(model, tokenizer, _story(name, f"{before} and {words}", schedule), LANGUAGE)


def scratch(shop: Workshop) -> Trained:
    """Just past a random start, where layer norms have moved and FLAT-CHAT sees something."""
    tokenizer = shop.tokenizer("gpt2-pretrained")
    model = _fresh(tokenizer, SCRATCH.seed)
    _train(model, tokenizer, shop.text("gpt2-scratch"), SCRATCH)
    story = _story("gpt2-scratch", f"{SCRATCH.steps} steps from a random start", SCRATCH, OWN)
    return _finished(model, tokenizer, story, FINE_TUNED)


def tied(shop: Workshop) -> Trained:
    """A narrower GPT-2 with one matrix for input and output, as the real GPT-2 has."""
    tokenizer = shop.tokenizer("gpt2-pretrained")
    model = _fresh(tokenizer, TIED.seed, width=64, is_tied=True)
    schedule = shop.schedule(TIED)
    _train(model, tokenizer, shop.text("gpt2-tied"), schedule)
    story = _story("gpt2-tied", f"{schedule.steps} steps from a random start", schedule)
    return _finished(model, tokenizer, story, FINE_TUNED)


def prior(shop: Workshop) -> Trained:
    """A GPT-2 over BERT's vocabulary, trained on [CLS] sentence [SEP], as LAMP's prior."""
    sentences = shop.text("prior-gpt2")
    tokenizer = bert_tokenizer(sentences, shapes.BERT_VOCABULARY)
    model = _fresh(tokenizer, PRIOR.seed, is_tied=True)
    schedule = shop.schedule(PRIOR)
    _train(model, tokenizer, sentences, schedule)
    words = f"{schedule.steps} steps from a random start"
    story = _story("prior-gpt2", words, schedule, REVIEWS)
    return _finished(model, tokenizer, story, (*CLASSIFICATION, *FEDERATED))


def _story(name: str, words: str, schedule: Schedule, licence: str = MIXED) -> Story:
    return Story(words, READINGS[name].words, licence, schedule)


def _fresh(
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
    *,
    width: int = shapes.WIDTH,
    is_tied: bool = False,
) -> GPT2LMHeadModel:
    start, end = boundary_ids(tokenizer)
    config = shapes.gpt2(len(tokenizer), start[0], end[0], width=width, tied=is_tied)
    return _from_config(config, seed)


def _from_config(config: PreTrainedConfig, seed: int) -> GPT2LMHeadModel:
    torch.manual_seed(seed)
    return GPT2LMHeadModel(config)


def _train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    text: Sequence[str],
    schedule: Schedule,
    stop: int | None = None,
) -> None:
    objective = OBJECTIVES["causal-lm"]
    data = objective.encode(tokenizer, text, None, None, MAX_TOKENS)
    fit(model, data, lambda batch, _: objective.loss(model, batch), schedule, stop)


def _finished(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    story: Story,
    corpora: tuple[str, ...],
) -> Trained:
    round_to_half(model)
    untrained = _from_config(model.config, story.schedule.seed).eval()
    scores = []
    for name in corpora:
        text = texts((name,), "test")
        values = (perplexity(m, tokenizer, text) for m in (model, untrained))
        scores.append(Score(name, "perplexity", *values))
    return Trained(model, tokenizer, story, tuple(scores), model.config.tie_word_embeddings)
