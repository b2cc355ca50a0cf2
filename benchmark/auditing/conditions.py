"""What all attacks together have read under each condition, and what a defense does to that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmark.auditing.findings import CellFinding
from benchmark.auditing.report import ConditionFinding, Leak, SentenceFinding
from benchmark.runs.plan import Cell
from benchmark.status import Status
from benchmark.suites import NO_DEFENSE

MARGIN = 0.1
"""Beyond what baselines reach by guessing, ROUGE-L and F1 of this much still count as stopped."""
UNCHANGED = 0.9
"""A defense under which so much of the leak is left does not help."""

ENDED = (Status.OK, Status.UNSUPPORTED)

Key = tuple[str, int]
"""Defense and batch size."""


@dataclass(frozen=True)
class Costs:
    """What making an update takes under a defense."""

    seconds: float | None = None
    bytes: float | None = None
    epsilon: float | None = None
    quality: Mapping[str, float] | None = None
    quality_reason: str = ""


def key_of(cell: Cell) -> Key:
    """The condition of a cell."""
    return cell.defense.name, cell.task.batch_size


def conditions(
    findings: Iterable[CellFinding], order: Iterable[Key], costs: Mapping[Key, Costs]
) -> list[ConditionFinding]:
    """Every condition of which something is known, each judged against that without a defense."""
    groups: dict[Key, list[CellFinding]] = {}
    for finding in findings:
        groups.setdefault(key_of(finding.cell), []).append(finding)
    made = [_condition(k, groups[k], costs.get(k, Costs())) for k in order if k in groups]
    plain = next((each for each in made if each.defense == NO_DEFENSE), None)
    if plain is None:
        return made
    guessed = _guessed(groups[plain.defense, plain.batch_size])
    return [_judged(each, plain, guessed) for each in made]


def _condition(key: Key, cells: Sequence[CellFinding], costs: Costs) -> ConditionFinding:
    attacks = [cell for cell in cells if not cell.attack.baseline]
    answered = [cell.attack for cell in attacks if cell.sentences]
    best = max(answered, key=lambda a: (a.rouge_l or 0.0, a.type_f1 or 0.0), default=None)
    unfinished = [c.attack.attack for c in attacks if c.attack.status not in ENDED]
    failed = [cell.record for cell in cells if not cell.record.snapshots]
    broken = next((r for r in failed if len(failed) == len(cells)), None)
    return ConditionFinding(
        defense=key[0],
        batch_size=key[1],
        status=broken.status if broken else Status.OK,
        reason=broken.reason if broken else "",
        sentences=_merged([cell.sentences for cell in attacks if cell.sentences]),
        strongest=best.attack if best else "",
        unfinished=unfinished,
        rouge_l=max((a.rouge_l or 0.0 for a in answered), default=0.0),
        type_f1=max((a.type_f1 or 0.0 for a in answered), default=0.0),
        update_seconds=costs.seconds,
        update_bytes=costs.bytes,
        epsilon=costs.epsilon,
        quality=dict(costs.quality or {}),
        quality_reason=costs.quality_reason,
    )


def _merged(answers: Sequence[Sequence[SentenceFinding]]) -> list[SentenceFinding]:
    """Of each sentence the best answer, and every word that any attack has shown."""
    if not answers:
        return []
    if any(sentence.text is None for sentence in answers[0]):
        longest: Sequence[SentenceFinding] = max(answers, key=len)
        return list(longest)  # nobody knows which one is best: the first attack's
    return [_best(each) for each in zip(*answers, strict=True)]


def _best(answers: Sequence[SentenceFinding]) -> SentenceFinding:
    best = max(answers, key=lambda a: (a.exact, a.rouge_l, bool(a.recovered)))
    return best.model_copy(
        update={
            "entities": _any([answer.entities for answer in answers]),
            "numbers": _any([answer.numbers for answer in answers]),
        }
    )


def _any(answers: Sequence[Sequence[Leak]]) -> list[Leak]:
    return [
        Leak(text=same[0].text, leaked=any(leak.leaked for leak in same))
        for same in zip(*answers, strict=True)
    ]


# ----------------------------------------------------------------------------------- the effect


@dataclass(frozen=True)
class _Guessed:
    """What baselines reach without an update."""

    rouge_l: float
    type_f1: float
    shown: int
    """Entities and words with digits."""


def _guessed(cells: Sequence[CellFinding]) -> _Guessed:
    baselines = [cell for cell in cells if cell.attack.baseline]
    merged = _merged([cell.sentences for cell in baselines if cell.sentences])
    return _Guessed(
        rouge_l=max((cell.attack.rouge_l or 0.0 for cell in baselines), default=0.0),
        type_f1=max((cell.attack.type_f1 or 0.0 for cell in baselines), default=0.0),
        shown=sum(leak.leaked for s in merged for leak in (*s.entities, *s.numbers)),
    )


def _judged(
    condition: ConditionFinding, plain: ConditionFinding, guessed: _Guessed
) -> ConditionFinding:
    return condition.model_copy(update={"effect": _effect(condition, plain, guessed)})


def _effect(
    condition: ConditionFinding, plain: ConditionFinding, guessed: _Guessed
) -> Literal["", "stops", "reduces", "none"]:
    """Whether a defense stops all attacks, reduces the leak, or changes nothing."""
    if condition.defense == NO_DEFENSE or condition.status is not Status.OK:
        return ""
    if not condition.sentences or condition.sentences[0].text is None:
        return ""
    if _is_no_more(condition, guessed):
        return "stops"
    same = condition.sentences, plain.sentences[: len(condition.sentences)]
    exact, before = (sum(s.exact for s in sentences) for sentences in same)
    if before and exact >= UNCHANGED * before:
        return "none"
    left = condition.rouge_l >= UNCHANGED * plain.rouge_l
    left &= condition.type_f1 >= UNCHANGED * plain.type_f1
    return "none" if left and exact >= before else "reduces"


def _is_no_more(condition: ConditionFinding, guessed: _Guessed) -> bool:
    shown = sum(leak.leaked for s in condition.sentences for leak in (*s.entities, *s.numbers))
    return (
        not condition.exact
        and condition.rouge_l <= guessed.rouge_l + MARGIN
        and condition.type_f1 <= guessed.type_f1 + MARGIN
        and shown <= guessed.shown
    )
