"""What an audit reports, as data: the JSON file is this, and the page is drawn from it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmark.errors import UserError
from benchmark.files import FiniteFloat, Strict, write_atomically
from benchmark.plugins.registry import render_audit
from benchmark.status import Status
from benchmark.suites import NO_DEFENSE

if TYPE_CHECKING:
    import pandas as pd

CAVEAT = (
    "Where no attack here succeeds, that is no proof of safety: attacks that were not tried, more "
    "time, more knowledge or an attack yet to be published may read more."
)


class Leak(Strict):
    """A named entity, or a word with a digit, and whether it was read back."""

    text: str
    leaked: bool


class SentenceFinding(Strict):
    """One private sentence beside the best that any attack has made of it."""

    text: str | None
    """None where only an update was given."""
    recovered: str
    attack: str
    """Empty where none has answered."""
    exact: bool
    rouge_l: FiniteFloat
    entities: list[Leak]
    numbers: list[Leak]
    """Words with a digit."""


class AttackFinding(Strict):
    """One attack under one condition."""

    attack: str
    defense: str
    batch_size: int
    baseline: bool
    status: Status
    reason: str = ""
    """Why it did not run or did not end."""
    note: str = ""
    told: list[str] = []
    """Knowledge that it was handed beside model, update and batch size."""
    stopped_by_clock: bool = False
    sentences: int = 0
    exact: int = 0
    rouge_1: FiniteFloat | None = None
    rouge_l: FiniteFloat | None = None
    type_f1: FiniteFloat | None = None
    entities: FiniteFloat | None = None
    """Share of the named entities that came back."""
    numbers: FiniteFloat | None = None
    """Share of the tokens with a digit that came back."""
    seconds: FiniteFloat | None = None
    """Of one recovery."""


class ConditionFinding(Strict):
    """What all attacks together read under one defense at one batch size, and what that costs."""

    defense: str
    batch_size: int
    status: Status
    reason: str = ""
    """Why the defense made no update."""
    sentences: list[SentenceFinding] = []
    strongest: str = ""
    """The attack with the highest ROUGE-L, or with the highest F1 of token types."""
    unfinished: list[str] = []
    """Attacks that failed or ran out of time or memory, so that nobody knows what they read."""
    rouge_l: FiniteFloat = 0.0
    """Of the strongest attack on sentences."""
    type_f1: FiniteFloat = 0.0
    """Of the strongest attack on token types."""
    effect: Literal["", "stops", "reduces", "none"] = ""
    """What a defense does to the leak; empty where there is nothing to compare."""
    update_seconds: FiniteFloat | None = None
    update_bytes: FiniteFloat | None = None
    epsilon: FiniteFloat | None = None
    quality: dict[str, FiniteFloat] = {}
    """Utility metrics of a model trained this way."""
    quality_reason: str = ""
    """Why there is no quality, where it was asked for."""

    @property
    def exact(self) -> int:
        """Sentences that were read back exactly."""
        return sum(sentence.exact for sentence in self.sentences)

    def leaks(self, kind: Literal["entities", "numbers"]) -> list[Leak]:
        """All entities, or all words with digits, of the sentences."""
        return [leak for sentence in self.sentences for leak in getattr(sentence, kind)]


class NotTried(Strict):
    """An attack that was not run under a condition, and why."""

    attack: str
    defense: str
    batch_size: int
    reason: str


class Setup(Strict):
    """What was measured, and how."""

    model: str
    architecture: str
    objective: str
    texts: int
    """In the file."""
    batch_size: int
    local_steps: int
    max_tokens: int
    granted: list[str]
    """Knowledge that an attack may ask for."""
    entities_by: str
    """What found the named entities."""
    dp_budget: str
    """The training that ε is computed for, in words."""
    seed: int
    budget_seconds: FiniteFloat
    took_seconds: FiniteFloat
    created: datetime
    """UTC."""
    version: str
    """Of Leakboard."""
    sandbox: str
    redacted: bool
    whole: bool
    """Whether the plan was carried out, or time was up before."""


class Report(Strict):
    """Everything that an audit has found out, the verdict first."""

    format: Literal[1] = 1
    verdict: list[str]
    caveat: str = CAVEAT
    setup: Setup
    conditions: list[ConditionFinding]
    """The undefended condition that was asked about comes first."""
    attacks: list[AttackFinding]
    not_tried: list[NotTried]

    @property
    def worst(self) -> AttackFinding | None:
        """What read most, whatever the defense; None where nothing but baselines answered."""
        answered = [a for a in self.attacks if not a.baseline and a.sentences]
        return max(answered, key=_severity, default=None)

    @property
    def undefended(self) -> ConditionFinding:
        """The condition that was asked about, without a defense."""
        return self.conditions[0]

    def defended(self) -> list[ConditionFinding]:
        """The conditions with a defense."""
        return [each for each in self.conditions if each.defense != NO_DEFENSE]

    def by_batch_size(self) -> list[ConditionFinding]:
        """The conditions without a defense, smallest batch first."""
        plain = [each for each in self.conditions if each.defense == NO_DEFENSE]
        return sorted(plain, key=lambda each: each.batch_size)

    def to_pandas(self) -> pd.DataFrame:
        """One row for each attack under each condition."""
        import pandas as pd

        rows = [attack.model_dump(mode="json") for attack in self.attacks]
        return pd.DataFrame(rows, columns=list(AttackFinding.model_fields))

    def save(self, path: str | Path) -> Path:
        """Write the page, or the data where the name ends in `.json`."""
        target = Path(path)
        if target.suffix not in (".html", ".json"):
            raise UserError(f"{target} is neither an .html nor a .json file; choose one of them.")
        text = self.model_dump_json(indent=1) + "\n" if target.suffix == ".json" else self.page()
        write_atomically(target, text)
        return target

    def page(self) -> str:
        """The report as one HTML page that needs nothing else."""
        return render_audit(self)


def _severity(attack: AttackFinding) -> tuple[float, float, float]:
    share = attack.exact / attack.sentences if attack.sentences else 0.0
    return share, attack.rouge_l or 0.0, attack.type_f1 or 0.0


def mean(values: Iterable[float]) -> float | None:
    """None where there are none."""
    found = list(values)
    return sum(found) / len(found) if found else None
