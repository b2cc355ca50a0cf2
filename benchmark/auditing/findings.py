"""What one attack has read under one condition, sentence by sentence, beside the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmark.auditing.report import AttackFinding, Leak, SentenceFinding
from benchmark.metrics.decoding import Reader, Sentence, is_private, words
from benchmark.metrics.sentences import BatchComparison, compare, read_batch
from benchmark.metrics.token_types import recovered_types, type_metrics
from benchmark.results.measure import score_record
from benchmark.results.schema import Record, SnapshotResult
from benchmark.runs.plan import Cell
from benchmark.spec import Recovery, TrueSentence, Truth
from benchmark.status import Status
from benchmark.suites import LoadedTask

PRECISE = 0.5
"""A set of token types leaks a word only if so many of them are right: one that names everything
has read nothing."""


@dataclass(frozen=True)
class CellFinding:
    """A finished cell, judged."""

    cell: Cell
    record: Record
    attack: AttackFinding
    sentences: Sequence[SentenceFinding]
    """In the order of the batches; the same for all attacks of a condition."""


def judge(
    cell: Cell, record: Record, side: LoadedTask, truths: Sequence[Truth] | None
) -> CellFinding:
    """Score a record; without truths, only what was recovered can be told."""
    baseline = cell.attack.entry.baseline
    told = sorted(map(str, cell.told))
    common = AttackFinding(
        attack=cell.attack.name,
        defense=cell.defense.name,
        batch_size=cell.task.batch_size,
        baseline=baseline,
        status=record.status,
        reason=record.reason,
        note=next((s.note for s in record.snapshots if s.note), ""),
        told=told,
        stopped_by_clock=any(s.stopped_by_clock for s in record.snapshots),
    )
    if not any(result.status is Status.OK for result in record.snapshots):
        return CellFinding(cell, record, common, ())  # no answer is not the same as a wrong one
    if truths is None:
        return CellFinding(cell, record, common, list(_blind(common.attack, cell, record)))
    reader = Reader(side.decode, side.special_ids)
    sentences = list(_sentences(common.attack, record, truths, reader))
    scored = score_record(record, truths, side.decode, side.special_ids, "").metrics
    values = {name: value.mean for name, value in scored.items()}
    finding = common.model_copy(
        update={
            "sentences": len(sentences),
            "exact": sum(sentence.exact for sentence in sentences),
            "rouge_1": values.get("rouge1"),
            "rouge_l": values.get("rougeL"),
            "type_f1": values.get("type_f1"),
            "entities": values.get("nerr"),
            "numbers": values.get("ptlr"),
            "seconds": values.get("seconds"),
        }
    )
    return CellFinding(cell, record, finding, sentences)


def _blind(attack: str, cell: Cell, record: Record) -> Iterator[SentenceFinding]:
    """What was recovered, where nobody knows what is right."""
    for result in record.snapshots:
        for text in result.texts[: cell.task.batch_size]:
            yield _finding(attack, None, text)


def _sentences(
    attack: str, record: Record, truths: Sequence[Truth], reader: Reader
) -> Iterator[SentenceFinding]:
    results = {result.index: result for result in record.snapshots}
    for index, truth in enumerate(truths):
        recovery = _recovery(results.get(index))
        comparison = compare(read_batch(truth, recovery.sentences, reader))
        types = recovered_types(truth, recovery, reader.special_ids)
        right = type_metrics(truth, types, reader.special_ids).get("type_precision", 0.0)
        named = types if right >= PRECISE else frozenset()
        rows = {true.place: row for row, true in enumerate(comparison.batch.truths)}
        for place, sentence in enumerate(truth.sentences):
            yield _compared(attack, sentence, rows.get(place), comparison, named, reader)


def _recovery(result: SnapshotResult | None) -> Recovery:
    if result is None or result.status is not Status.OK:
        return Recovery()
    types = None if result.token_types is None else frozenset(result.token_types)
    return Recovery(result.sentences, types)


def _compared(
    attack: str,
    true: TrueSentence,
    row: int | None,
    comparison: BatchComparison,
    named: frozenset[int],
    reader: Reader,
) -> SentenceFinding:
    """One private sentence beside its partner; `row` is None where it has special tokens only."""
    if row is None:
        return _finding(attack, true.text, "")
    truth, partner = comparison.batch.truths[row].sentence, comparison.partner(row)
    column = comparison.partners.get(row)
    rouge = 0.0 if column is None else float(comparison.rouge["rougeL"][row, column])
    exact = partner is not None and partner.ids == truth.ids
    shown = _Shown(truth, partner, named, reader)
    entities = [
        Leak(text=e, leaked=exact or shown.has(words(e))) for e in dict.fromkeys(true.entities)
    ]
    private = [word for word in dict.fromkeys(truth.words) if is_private(word)]
    numbers = [Leak(text=word, leaked=exact or shown.has([word])) for word in private]
    recovered = partner.text if partner else ""
    return _finding(attack, true.text, recovered, exact, rouge, entities, numbers)


class _Shown:
    """Which words of a private sentence an attack has shown, in order or as token types."""

    def __init__(
        self, truth: Sentence, partner: Sentence | None, named: frozenset[int], reader: Reader
    ) -> None:
        self.text = partner.words if partner else []
        spelled = reader.spelled_words(truth) if named else ()
        self.named = {word for word, ids in spelled if ids <= named}

    def has(self, wanted: Sequence[str]) -> bool:
        """Whether the words stand together in the text, or were all named."""
        size = len(wanted)
        if not size:
            return False
        starts = range(len(self.text) - size + 1)
        together = any(self.text[start : start + size] == list(wanted) for start in starts)
        return together or all(word in self.named for word in wanted)


def _finding(
    attack: str,
    text: str | None,
    recovered: str,
    exact: bool = False,
    rouge_l: float = 0.0,
    entities: Sequence[Leak] = (),
    numbers: Sequence[Leak] = (),
) -> SentenceFinding:
    return SentenceFinding(
        text=text,
        recovered=recovered,
        attack=attack if recovered else "",
        exact=exact,
        rouge_l=rouge_l,
        entities=list(entities),
        numbers=list(numbers),
    )
