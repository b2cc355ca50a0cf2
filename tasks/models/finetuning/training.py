"""Trains the models `trained:<name>` and measures them on the test split."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import GPT2Config, GPT2LMHeadModel, MarianConfig, MarianMTModel

from benchmark.files import naming
from benchmark.ownership import staging_folder
from tasks import corpora
from tasks.corpora.base import Row
from tasks.models.digests import publish
from tasks.models.finetuning.recipes import TrainingRecipe, gpt2_shape, marian_shape
from tasks.models.finetuning.store import find, folder
from tasks.models.heads import copy_tokenizer, draw_head, save_weights
from tasks.models.loading import freeze_to_buffers, load_weights
from tasks.models.pretraining import measure
from tasks.models.pretraining.loop import Schedule, fit
from tasks.models.pretraining.vocabulary import marian_tokenizer
from tasks.models.resolve import locate
from tasks.models.tokenizers import open_tokenizer
from tasks.objectives import OBJECTIVES

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TEST_ROWS = 300


def make(name: str) -> Path:
    """Train a model by its recipe and put it into the cache; one that is there is left alone."""
    recipe, target = find(name), folder(name)
    if target.is_dir():
        return target
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    public = corpora.load(recipe.corpus, "public")
    model, tokenizer = _start(recipe, public)
    test = corpora.load(recipe.corpus, "test")[:TEST_ROWS]
    before = _scores(recipe, model, tokenizer, test)
    _train(recipe, model, tokenizer, public)
    scores = {"before": before, "after": _scores(recipe, model, tokenizer, test)}
    _write(recipe, model, tokenizer, scores, target)
    return target


def _start(
    recipe: TrainingRecipe, public: Sequence[Row]
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The base, with a fresh head where classes are told apart, or a random start."""
    torch.manual_seed(recipe.seed)
    model: PreTrainedModel
    if not recipe.base:
        both = [text for row in public for text in (row.source or "", row.text)]
        tokenizer = marian_tokenizer(both, recipe.vocabulary)
        model = MarianMTModel(MarianConfig(**marian_shape(recipe, len(tokenizer))))  # type: ignore[arg-type]
        freeze_to_buffers(model)
        return model.eval(), tokenizer
    source = locate(recipe.base)
    known = open_tokenizer(source)
    if recipe.width:
        model = GPT2LMHeadModel(GPT2Config(**gpt2_shape(recipe, len(known))))  # type: ignore[arg-type]
        return model.eval(), known
    labels = {"num_labels": recipe.labels} if recipe.labels else {}
    model, report = load_weights(source, recipe.objective, torch.float32, **labels)
    if recipe.labels:
        draw_head(model, set(report["missing_keys"]), recipe.seed)
    return model, known


def _train(
    recipe: TrainingRecipe,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    public: Sequence[Row],
) -> None:
    objective = OBJECTIVES[recipe.objective]
    data = objective.encode(
        tokenizer,
        [row.text for row in public],
        [row.label or 0 for row in public],
        [row.source or "" for row in public],
        recipe.max_tokens,
    )
    schedule = Schedule(recipe.steps, recipe.rate, recipe.batch_size, recipe.warmup, recipe.seed)
    fit(model, data, lambda batch, _: objective.loss(model, batch), schedule)


def _scores(
    recipe: TrainingRecipe,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    test: Sequence[Row],
) -> dict[str, float]:
    """What the model is worth on held-out rows."""
    texts = [row.text for row in test]
    if recipe.objective == "classification":
        true = [row.label or 0 for row in test]
        found = measure.predictions(model, tokenizer, texts)
        scores = {
            "accuracy": measure.accuracy(found, true),
            "matthews": measure.matthews(found, true),
        }
    elif recipe.objective == "causal-lm":
        scores = {"perplexity": measure.perplexity(model, tokenizer, texts)}
    else:
        scores = {"perplexity": measure.translation_perplexity(model, tokenizer, test)}
    return {name: round(value, 4) for name, value in scores.items()}


def _write(
    recipe: TrainingRecipe,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    scores: dict[str, dict[str, float]],
    target: Path,
) -> None:
    scratch = staging_folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with naming(target):
            save_weights(model, scratch)
            (scratch / "generation_config.json").unlink(missing_ok=True)
            if recipe.base:
                copy_tokenizer(locate(recipe.base), scratch)
            else:
                tokenizer.save_pretrained(str(scratch))
            made = {"recipe": asdict(recipe), "test": scores}
            (scratch / "metrics.json").write_text(json.dumps(made, indent=2) + "\n", "utf-8")
            publish(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
