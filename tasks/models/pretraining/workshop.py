"""What every recipe uses: where text and finished models lie, and what a finished model is."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from tasks.models.digests import write_checksum
from tasks.models.heads import save_weights
from tasks.models.loading import freeze_to_buffers, load_weights
from tasks.models.pretraining.loop import Schedule
from tasks.models.pretraining.reading import training_text
from tasks.models.pretraining.text import RealText
from tasks.models.tokenizers import open_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class Workshop:
    """The folders, and which part of the steps to take (less than 1 to try things out)."""

    real: RealText
    weights: Path
    share_of_steps: float = 1.0

    def schedule(self, schedule: Schedule) -> Schedule:
        """The schedule, shortened where this is only a trial."""
        return replace(schedule, steps=max(2, round(schedule.steps * self.share_of_steps)))

    def text(self, name: str) -> list[str]:
        """What a model is trained on."""
        return training_text(name, self.real)

    def tokenizer(self, name: str) -> PreTrainedTokenizerBase:
        """The tokenizer of a model that was made before."""
        return open_tokenizer(self.weights / name)

    def model(self, name: str, objective: str, **configuration: object) -> PreTrainedModel:
        """A model that was made before, to continue from."""
        model, _ = load_weights(self.weights / name, objective, torch.float32, **configuration)
        freeze_to_buffers(model)
        return model


@dataclass(frozen=True)
class Score:
    """One number on a test split, beside that of an untrained model of the same shape."""

    corpus: str
    metric: str
    trained: float
    untrained: float


@dataclass(frozen=True)
class Story:
    """How a model came about, in words and numbers, for people who read `metrics.json`."""

    checkpoint: str
    training_text: str
    licence: str
    schedule: Schedule


@dataclass(frozen=True)
class Trained:
    """A finished model with its measurements."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    story: Story
    scores: tuple[Score, ...]
    tied: bool = False


def round_to_half(model: torch.nn.Module) -> None:
    """Round to what the file will hold, so that the measurements are those of the file."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half())


def store(name: str, trained: Trained, weights: Path) -> None:
    """Write a model's folder: weights in half precision, configuration, tokenizer, metrics."""
    folder = weights / name
    scratch = weights / f".{name}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    save_weights(trained.model.half(), scratch)
    (scratch / "generation_config.json").unlink(missing_ok=True)
    trained.tokenizer.save_pretrained(str(scratch))
    _compact(scratch / "tokenizer.json")
    metrics = json.dumps(_metrics(name, trained), indent=2, ensure_ascii=False)
    (scratch / "metrics.json").write_text(metrics + "\n", "utf-8")
    write_checksum(scratch)
    shutil.rmtree(folder, ignore_errors=True)
    scratch.rename(folder)


def _metrics(name: str, trained: Trained) -> dict[str, object]:
    story = trained.story
    return {
        "name": name,
        "architecture": type(trained.model).__name__,
        "parameters": sum(p.numel() for p in trained.model.parameters() if p.requires_grad),
        "vocabulary": len(trained.tokenizer),
        "tied": trained.tied,
        "checkpoint": story.checkpoint,
        "training_text": story.training_text,
        "licence": story.licence,
        **asdict(story.schedule),
        "scores": [
            asdict(replace(s, trained=round(s.trained, 4), untrained=round(s.untrained, 4)))
            for s in trained.scores
        ],
    }


def _compact(path: Path) -> None:
    """A tokenizer file without its indentation is a third of the size."""
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), "utf-8")
