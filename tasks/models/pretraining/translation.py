"""Recipes of the two translation models, German to English."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from transformers import MarianConfig, MarianMTModel

from tasks.models.loading import freeze_to_buffers
from tasks.models.pretraining import shapes
from tasks.models.pretraining.language import OWN
from tasks.models.pretraining.loop import Schedule, fit
from tasks.models.pretraining.measure import MAX_TOKENS, bleu, translation_perplexity
from tasks.models.pretraining.reading import READINGS, builtin_rows
from tasks.models.pretraining.text import rows
from tasks.models.pretraining.vocabulary import marian_tokenizer
from tasks.models.pretraining.workshop import Score, Story, Trained, Workshop, round_to_half
from tasks.objectives import OBJECTIVES

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CORPUS = ("iwslt",)
TEXT = READINGS["marian-scratch"].words

SCRATCH = Schedule(steps=100, rate=1e-3, seed=31)
FINE_TUNING = Schedule(steps=260, rate=2e-3, warmup=100, seed=32)
"""Ends before the model knows the patterned corpus by heart: no loss, no gradient to read."""


def scratch(shop: Workshop) -> Trained:
    """Just past a random start; not shortened in trials, since its steps are what it is."""
    public = builtin_rows("marian-scratch")
    both = [text for row in public for text in (row.source or "", row.text)]
    tokenizer = marian_tokenizer(both, shapes.MARIAN_VOCABULARY)
    torch.manual_seed(SCRATCH.seed)
    model = MarianMTModel(shapes.marian(len(tokenizer)))
    freeze_to_buffers(model)
    _train(model, tokenizer, SCRATCH)
    story = Story(f"{SCRATCH.steps} steps from a random start", TEXT, OWN, SCRATCH)
    return _finished(model, tokenizer, story)


def finetuned(shop: Workshop) -> Trained:
    """`marian-scratch` trained until it translates, though not until it makes no mistakes."""
    tokenizer = shop.tokenizer("marian-scratch")
    model = shop.model("marian-scratch", "translation")
    schedule = shop.schedule(FINE_TUNING)
    _train(model, tokenizer, schedule)
    story = Story(f"marian-scratch and {schedule.steps} steps more", TEXT, OWN, schedule)
    return _finished(model, tokenizer, story)


def _train(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, schedule: Schedule) -> None:
    objective, public = OBJECTIVES["translation"], builtin_rows("marian-scratch")
    texts, sources = [row.text for row in public], [row.source or "" for row in public]
    data = objective.encode(tokenizer, texts, None, sources, MAX_TOKENS)
    fit(model, data, lambda batch, _: objective.loss(model, batch), schedule)


def _finished(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, story: Story) -> Trained:
    round_to_half(model)
    torch.manual_seed(story.schedule.seed)
    models = (model, MarianMTModel(MarianConfig.from_dict(model.config.to_dict())).eval())
    test = rows(CORPUS, "test")
    losses = (translation_perplexity(m, tokenizer, test) for m in models)
    overlaps = (bleu(m, tokenizer, test) for m in models)
    scores = (Score("iwslt", "perplexity", *losses), Score("iwslt", "bleu", *overlaps))
    return Trained(model, tokenizer, story, scores)
