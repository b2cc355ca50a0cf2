"""Whether a package of somebody else's fits: every reason why not, in a sentence each.

Nothing of it is believed that can be computed here: the plan, the digests of code and snapshots,
the text behind token ids. What cannot be, the recoveries and their times, is what
`leakboard verify` repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmark.errors import UserError
from benchmark.exchange.official import FIRST_PUBLISHED_SEED, OfficialPlan
from benchmark.exchange.package import SubmissionPackage
from benchmark.exchange.training import training_refusals
from benchmark.execution.events import MOST_TOKENS
from benchmark.execution.sandbox import SANDBOXES
from benchmark.files import write_model
from benchmark.plugins.registry import load_task
from benchmark.plugins.selection import ConfiguredSubmission
from benchmark.results.schema import Measured, Provenance, Record, SnapshotResult, UtilityRecord
from benchmark.results.store import score_path
from benchmark.results.verification import mark
from benchmark.runs.attack_run import MAX_SENTENCES
from benchmark.runs.plan import Cell
from benchmark.runs.utility_plan import Trial
from benchmark.snapshots.build import SnapshotSet
from benchmark.snapshots.validate import LARGEST_EPSILON
from benchmark.status import Status
from benchmark.suites import LoadedTask

LATER = timedelta(days=1)
"""How far the clock of another machine may be ahead."""
MOST_PACKAGES = 100
LONGEST_WORD = 200
Key = tuple[str, str, str, int]


@dataclass(frozen=True)
class Admission:
    """A package before the official plan of its submission."""

    package: SubmissionPackage
    submission: ConfiguredSubmission
    plan: OfficialPlan

    def refusals(self) -> Iterator[str]:
        """Every reason to refuse the package, in a sentence each."""
        yield from self._as_a_whole()
        cells = {_key(cell): cell for cell in self.plan.cells}
        trials = {_trial_key(trial): trial for trial in self.plan.trials}
        yield from self._complete(cells, trials)
        for record in self.package.records:
            if (cell := cells.get(_record_key(record))) is not None:
                yield from _labeled(cell.label, record_refusals(record, cell))
        for result in self.package.utility:
            if (trial := trials.get(_utility_key(result))) is not None:
                yield from _labeled(trial.label, utility_refusals(result, trial))

    def existing(self) -> Iterator[str]:
        """Records that are there already and would be replaced by others."""
        for path, record in self._files():
            if path.exists() and path.read_text() != record.model_dump_json(indent=1) + "\n":
                yield f"there is another record {path} already; --force replaces it"

    def store(self) -> int:
        """File the records, without scores and marks of those before; returns how many."""
        files = list(self._files())
        for path, record in files:
            write_model(path, record)
            score_path(path).unlink(missing_ok=True)
            mark(path, None)
        return len(files)

    def _files(self) -> Iterator[tuple[Path, Measured]]:
        cells = {_key(cell): cell.path for cell in self.plan.cells}
        trials = {_trial_key(trial): trial.path for trial in self.plan.trials}
        for record in self.package.records:
            yield cells[_record_key(record)], record
        for result in self.package.utility:
            yield trials[_utility_key(result)], result

    def _as_a_whole(self) -> Iterator[str]:
        package, entry = self.package, self.submission.entry
        if (package.kind, package.submission) != (entry.kind, self.submission.name):
            yield f"{package.submission[:60]!r} is not what {self.submission.name} is called"
        if package.seed < FIRST_PUBLISHED_SEED:
            yield (
                f"seed {package.seed} is for tuning; published results have seeds from "
                f"{FIRST_PUBLISHED_SEED} on"
            )
        if package.source_digest != entry.digest:
            yield (
                f"it was made by other code of {entry.name} than the one here "
                f"({package.source_digest[:12]}, here {entry.digest[:12]})"
            )
        if package.created > datetime.now(UTC) + LATER:
            yield "it was packed in the future"

    def _complete(self, cells: dict[Key, Cell], trials: dict[Key, Trial]) -> Iterator[str]:
        """Each cell of the official plan once, and nothing else."""
        found = [_record_key(record) for record in self.package.records]
        found += [_utility_key(record) for record in self.package.utility]
        wanted = {*cells, *trials}
        for key in sorted({key for key in found if found.count(key) > 1}):
            yield f"{_shown(key)} is there more than once"
        for key in sorted(set(found) - wanted):
            yield f"{_shown(key)} is no cell of the official plan"
        missing = sorted(wanted - set(found))
        if missing:
            more = f", and {len(missing) - 1} more" if missing[1:] else ""
            yield f"{_shown(missing[0])} of the official plan is missing{more}"


def _labeled(label: str, sentences: Iterator[str]) -> Iterator[str]:
    for sentence in sentences:
        yield f"{label}: {sentence}"


def _shown(key: Key) -> str:
    return " · ".join(str(part)[:60] for part in key)


def _key(cell: Cell) -> Key:
    return cell.task.name, cell.defense.name, cell.attack.name, cell.seed


def _record_key(record: Record) -> Key:
    return record.task, record.defense_name, record.attack_name, record.seed


def _trial_key(trial: Trial) -> Key:
    return trial.task.name, trial.defense.name, "(utility)", trial.seed


def _utility_key(record: UtilityRecord) -> Key:
    return record.task, record.defense_name, "(utility)", record.seed


# ------------------------------------------------------------------------------------ one record


def record_refusals(record: Record, cell: Cell) -> Iterator[str]:
    """What does not fit in the record of a cell."""
    attack = cell.attack
    expected = cell.names() | {
        "attack": attack.entry.name,
        "attack_parameters": dict(attack.parameters),
        "attack_variant": attack.variant,
        "told": sorted(cell.told),
        "baseline": attack.entry.baseline,
    }
    yield from _named(record, expected)
    digests = attack.entry.digest, cell.defense.digest(cell.task), cell.fingerprint
    yield from provenance_refusals(record.provenance, *digests)
    yield from _bounded(record.epsilon)
    if record.status is not Status.UNSUPPORTED or record.snapshots:
        try:
            yield from _snapshots(record, cell, load_task(cell.task))
        except UserError as error:
            yield str(error).rstrip(".")


def utility_refusals(record: UtilityRecord, trial: Trial) -> Iterator[str]:
    """What does not fit in the record of a training."""
    yield from _named(record, trial.names())
    digest = trial.defense.digest(trial.task)
    yield from provenance_refusals(record.provenance, "", digest, trial.fingerprint)
    yield from _bounded(record.epsilon)
    yield from training_refusals(record, load_task(trial.task))


def _named(record: Measured, expected: Mapping[str, object]) -> Iterator[str]:
    for name, value in expected.items():
        if getattr(record, name) != value:
            given = str(getattr(record, name))[:60]
            yield f"its {name.replace('_', ' ')} is {given}, and should be {value}"


def provenance_refusals(
    given: Provenance, attack: str, defense: str, fingerprint: str
) -> Iterator[str]:
    """Digests that are others than here, and words that no machine writes."""
    for what, found, here in (
        ("attack", given.attack_digest, attack),
        ("defense", given.defense_digest, defense),
    ):
        if found != here:
            yield f"its {what} had other code ({found[:12]}, here {here[:12]})"
    if given.fingerprint != fingerprint:
        yield "it was made with another version of the task, the harness or its libraries"
    words = (given.git_commit, given.python, given.platform, given.processor, given.device)
    pairs = (*given.packages, *given.packages.values())
    if len(given.packages) > MOST_PACKAGES or not all(_plain(word) for word in (*words, *pairs)):
        yield "its provenance has words that are too long or too many"
    if given.sandbox not in SANDBOXES:
        yield f"there is no sandbox {given.sandbox[:60]!r}"
    if not (1 <= given.cores <= 10**6 and 1 <= given.threads <= 10**6 and given.memory_gb < 1e6):
        yield "its machine has an impossible number of cores, threads or gigabytes"
    if given.created > datetime.now(UTC) + LATER:
        yield "it was made in the future"


def _plain(word: str) -> bool:
    return len(word) <= LONGEST_WORD and word.isprintable()


def _bounded(value: float | None) -> Iterator[str]:
    if value is not None and not 0 <= value <= LARGEST_EPSILON:
        yield f"a number of {value:g} is beyond what can be measured"


# ------------------------------------------------------------------------------------- snapshots


def _snapshots(record: Record, cell: Cell, side: LoadedTask) -> Iterator[str]:
    indices = [result.index for result in record.snapshots]
    if indices != list(range(cell.task.snapshots)):
        yield f"it has not each of the {cell.task.snapshots} snapshots once, in order"
        return
    fine = (Status.OK, Status.UNSUPPORTED)
    if record.status is Status.OK and any(r.status not in fine for r in record.snapshots):
        yield "it is ok although a snapshot is not"
    if record.withheld:
        yield "it was published without what was recovered, so nothing of it can be checked"
        return
    snapshots = SnapshotSet(side, cell.defense, cell.seed)
    for result in record.snapshots:
        expected = snapshots.digest(result.index, snapshots.read_truth(result.index).batch_digest)
        if result.digest != expected:
            yield f"snapshot {result.index} is another one than here (its digest differs)"
        yield from _answer(result, side)


def _answer(result: SnapshotResult, side: LoadedTask) -> Iterator[str]:
    where = f"snapshot {result.index}"
    types = result.token_types or []
    many = len(result.sentences) > MAX_SENTENCES or len(types) > MOST_TOKENS
    if many or sum(map(len, result.sentences)) > MOST_TOKENS:
        yield f"{where} has more sentences or tokens than an answer may have"
    elif not side.all_in_vocabulary([*result.sentences, types]):
        yield f"{where} has a token id outside the vocabulary"
    elif result.texts != [side.decode(ids) for ids in result.sentences]:
        yield f"{where} has texts that are not those of its token ids"
