"""What each builtin model is trained on: public rows, and real text that holds no private row.

One model is the exception: `gpt2-memorized` reads the private rows themselves, which is the setting
of FILM's paper and a task of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks.corpora import builtin
from tasks.corpora.base import Row
from tasks.models.pretraining.text import CLASSIFICATION, FEDERATED, FINE_TUNED, RealText, rows

REAL_NAMES = {"wikitext": "WikiText", "reviews": "Rotten Tomatoes"}


@dataclass(frozen=True)
class Reading:
    """The text of one model's own training."""

    public: tuple[str, ...] = ()
    """Builtin corpora whose public rows are read."""
    private: tuple[str, ...] = ()
    """Builtin corpora whose private rows are read."""
    real: tuple[str, ...] = ()
    """Real corpora that are mixed in."""
    after: str | None = None
    """The model whose weights it continues, so that it has read the same before."""

    @property
    def words(self) -> str:
        """For `metrics.json`."""
        parts = []
        if self.public:
            parts.append(f"public rows of the builtin {', '.join(self.public)}")
        if self.private:
            parts.append(f"private rows of the builtin {', '.join(self.private)}")
        if self.real:
            parts.append(" and ".join(REAL_NAMES[name] for name in self.real))
        return "; ".join(parts)


_MIXED = ("wikitext", "reviews")
"""Repeated in fine-tuning, else a model forgets all but the patterns of its domains."""
_CLASSIFIERS = (*CLASSIFICATION, *FEDERATED)
_AT_HOME = Reading(FINE_TUNED, real=_MIXED, after="gpt2-pretrained")

READINGS: dict[str, Reading] = {
    "gpt2-pretrained": Reading(real=_MIXED),
    "gpt2-finetuned": _AT_HOME,
    "gpt2-halfway": _AT_HOME,
    "gpt2-memorized": Reading(private=FINE_TUNED, after="gpt2-finetuned"),
    "gpt2-scratch": Reading(FINE_TUNED),
    "gpt2-tied": Reading(FINE_TUNED, real=_MIXED),
    "prior-gpt2": Reading(_CLASSIFIERS, real=("reviews",)),
    "bert-pretrained": Reading(_CLASSIFIERS, real=("reviews",), after="prior-gpt2"),
    "bert-cola": Reading(("cola",), after="bert-pretrained"),
    "distilbert": Reading(_CLASSIFIERS, after="prior-gpt2"),
    "bilstm": Reading(FEDERATED),
    "marian-scratch": Reading(("iwslt",)),
    "marian-finetuned": Reading(("iwslt",), after="marian-scratch"),
}


def builtin_rows(name: str) -> list[Row]:
    """The rows of builtin corpora that a model's own training reads."""
    reading = READINGS[name]
    private = [row for corpus in reading.private for row in builtin.load(corpus, "private")]
    return [*rows(reading.public), *private]


def training_text(name: str, real: RealText) -> list[str]:
    """All that a model's own training reads."""
    reading = READINGS[name]
    mixed = [text for corpus in reading.real for text in real.sentences(corpus)]
    return [*(row.text for row in builtin_rows(name)), *mixed]


def lineage(name: str) -> list[str]:
    """The model and those whose weights it continues: it has read what all of them read."""
    before = READINGS[name].after
    return [name, *(lineage(before) if before else [])]
