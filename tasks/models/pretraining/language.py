"""Recipes of the language models: five GPT-2 and the prior over BERT's vocabulary."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from transformers import GPT2LMHeadModel

from tasks.models.pretraining import shapes
from tasks.models.pretraining.loop import Schedule, fit
from tasks.models.pretraining.measure import MAX_TOKENS, perplexity
from tasks.models.pretraining.text import (
    CLASSIFICATION,
    FEDERATED,
    LANGUAGE,
    PRETRAINING_SHARE,
    texts,
)
from tasks.models.pretraining.vocabulary import bert_tokenizer, gpt2_tokenizer
from tasks.models.pretraining.workshop import Score, Story, Trained, Workshop, round_to_half
from tasks.objectives import OBJECTIVES, boundary_ids

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

FINE_TUNED = ("wikitext", "enron")
OWN = "project's own text"
MIXED = "project's own text, WikiText (CC BY-SA) and Rotten Tomatoes (CC BY 4.0)"
REVIEWS = "project's own text and Rotten Tomatoes (CC BY 4.0)"
FINE_TUNED_TEXT = "public rows of the builtin wikitext and enron"

REMEMBERED = 3
"""Fine-tuning repeats every third real sentence, else the model forgets all but its domains."""

PRETRAINING = Schedule(steps=1500, rate=2e-3, seed=11)
FINE_TUNING = Schedule(steps=1500, rate=1e-3, seed=12)
SCRATCH = Schedule(steps=50, rate=1e-3, warmup=10, seed=13)
TIED = Schedule(steps=1500, rate=3e-3, seed=14)
PRIOR = Schedule(steps=2000, rate=2e-3, seed=15)


def pretrained(shop: Workshop) -> Trained:
    """Real text first of all, and every tenth public row, so good but not at home in a domain."""
    wikitext, reviews = shop.real.wikitext(), shop.real.reviews()
    tokenizer = gpt2_tokenizer([*wikitext, *texts(LANGUAGE)], shapes.GPT2_VOCABULARY)
    model = _fresh(tokenizer, PRETRAINING.seed)
    schedule = shop.schedule(PRETRAINING)
    text = [*wikitext, *reviews, *texts(FINE_TUNED)[::PRETRAINING_SHARE]]
    _train(model, tokenizer, text, schedule)
    what = "WikiText and Rotten Tomatoes sentences, a tenth of the public wikitext and enron rows"
    story = Story(f"{schedule.steps} steps from a random start", what, MIXED, schedule)
    return _finished(model, tokenizer, story, LANGUAGE)


def finetuned(shop: Workshop) -> Trained:
    """`gpt2-pretrained` at home in wikitext and enron; imdb and agnews-lm stay unseen."""
    schedule = shop.schedule(FINE_TUNING)
    return _fine_tune(shop, schedule, None, f"gpt2-pretrained and {schedule.steps} steps more")


def halfway(shop: Workshop) -> Trained:
    """`gpt2-finetuned` while it is being fine-tuned: the same steps, half of them."""
    schedule = shop.schedule(FINE_TUNING)
    taken = schedule.steps // 2
    words = f"gpt2-pretrained and the first {taken} of the {schedule.steps} steps of gpt2-finetuned"
    return _fine_tune(shop, schedule, taken, words)


def _fine_tune(shop: Workshop, schedule: Schedule, stop: int | None, words: str) -> Trained:
    tokenizer = shop.tokenizer("gpt2-pretrained")
    model = shop.model("gpt2-pretrained", "causal-lm")
    remembered = [*shop.real.wikitext(), *shop.real.reviews()][::REMEMBERED]
    _train(model, tokenizer, [*texts(FINE_TUNED), *remembered], schedule, stop)
    what = f"{FINE_TUNED_TEXT}, and every third sentence of the pretraining's real text"
    return _finished(model, tokenizer, Story(words, what, MIXED, schedule), LANGUAGE)


def scratch(shop: Workshop) -> Trained:
    """Just past a random start, where layer norms have moved and FLAT-CHAT sees something."""
    tokenizer = shop.tokenizer("gpt2-pretrained")
    model = _fresh(tokenizer, SCRATCH.seed)
    _train(model, tokenizer, texts(FINE_TUNED), SCRATCH)
    story = Story(f"{SCRATCH.steps} steps from a random start", FINE_TUNED_TEXT, OWN, SCRATCH)
    return _finished(model, tokenizer, story, FINE_TUNED)


def tied(shop: Workshop) -> Trained:
    """A narrower GPT-2 with one matrix for input and output, as the real GPT-2 has."""
    tokenizer = shop.tokenizer("gpt2-pretrained")
    model = _fresh(tokenizer, TIED.seed, width=64, is_tied=True)
    schedule = shop.schedule(TIED)
    _train(model, tokenizer, texts(FINE_TUNED), schedule)
    story = Story(f"{schedule.steps} steps from a random start", FINE_TUNED_TEXT, OWN, schedule)
    return _finished(model, tokenizer, story, FINE_TUNED)


def prior(shop: Workshop) -> Trained:
    """A GPT-2 over BERT's vocabulary, trained on [CLS] sentence [SEP], as LAMP's prior."""
    names = (*CLASSIFICATION, *FEDERATED)
    sentences = [*texts(names), *shop.real.reviews()]
    tokenizer = bert_tokenizer(sentences, shapes.BERT_VOCABULARY)
    model = _fresh(tokenizer, PRIOR.seed, is_tied=True)
    schedule = shop.schedule(PRIOR)
    _train(model, tokenizer, sentences, schedule)
    what = f"public rows of the builtin {', '.join(names)}, and Rotten Tomatoes"
    story = Story(f"{schedule.steps} steps from a random start", what, REVIEWS, schedule)
    return _finished(model, tokenizer, story, names)


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
