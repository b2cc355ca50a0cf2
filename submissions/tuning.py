"""Tries the settings of an attack on tuning seeds, through the harness, and writes what it tried.

    python -m submissions.tuning dager --task cola,cola-b4 --grid limit=4,6,8 --out tried.csv

Every combination of the grid is run and scored by the `leakboard` command, in its sandbox, as a
contributor would do it by hand; nothing of the harness is imported. Several attacks by commas are
compared on the same snapshots. Seeds of 100 and above are those of published figures, and are
refused.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory

FIRST_PUBLISHED_SEED = 100
CONFIDENCE = 0.95

Scalar = str | int | float | bool
Place = tuple[str, str, int, int]
"""Task, defense, seed and snapshot: where settings are compared."""


class BadInput(Exception):
    """A sentence for whoever called."""


@dataclass(frozen=True)
class Trial:
    """What an attack with one setting reached on one snapshot."""

    setting: str
    task: str
    defense: str
    seed: int
    snapshot: int
    value: float
    seconds: float | None


@dataclass(frozen=True)
class Standing:
    """One setting beside the best: its mean, and the paired difference with a t interval."""

    setting: str
    mean: float
    difference: float
    low: float
    high: float
    snapshots: int
    seconds: float


def seeds_of(text: str) -> list[int]:
    """`0-3,7` as numbers; seeds of published figures are not for tuning."""
    try:
        spans = [[int(end) for end in part.split("-")] for part in text.split(",")]
        seeds = sorted({seed for span in spans for seed in range(span[0], span[-1] + 1)})
    except ValueError:
        raise BadInput(f"--seeds {text} is not of the form 0-9 or 0,3,7.") from None
    if not seeds or seeds[-1] >= FIRST_PUBLISHED_SEED:
        raise BadInput(
            f"--seeds {text} goes to {FIRST_PUBLISHED_SEED} or beyond (or names none): those seeds "
            "are for published figures, so tune on lower ones, usually 0-9."
        )
    return seeds


def grid_of(lines: Iterable[str]) -> list[dict[str, str]]:
    """Every combination of `name=v1,v2` lines; one without settings where there are no lines."""
    names, values = [], []
    for line in lines:
        name, equals, rest = line.partition("=")
        if not name or not equals or not all(rest.split(",")):
            raise BadInput(f"--grid {line} is not of the form name=value,value.")
        names.append(name)
        values.append(rest.split(","))
    return [dict(zip(names, each, strict=True)) for each in product(*values)]


def label(attack: str, settings: Mapping[str, str]) -> str:
    """An attack with its settings as a reader and the command line write it."""
    inside = ",".join(f"{name}={value}" for name, value in settings.items())
    return f"{attack}[{inside}]" if inside else attack


# ------------------------------------------------------------------------------ through the command


def leakboard(*arguments: str) -> str:
    """What the command prints; a failed cell is a result, a wrong name is the caller's fault."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmark.cli", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise BadInput((done.stderr.strip() or done.stdout.strip()).splitlines()[-1])
    return done.stdout


def labels_of(attack: str, grid: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Label of each combination by what its record will hold of it."""
    known = json.loads(leakboard("describe", f"attack:{attack}", "--json"))
    defaults = {name: rule["default"] for name, rule in known["parameters"].items()}
    found = {}
    for combination in grid:
        if unknown := [name for name in combination if name not in defaults]:
            raise BadInput(f"{attack} has no parameter {unknown[0]}; it has {', '.join(defaults)}.")
        given = {name: _typed(value, defaults[name]) for name, value in combination.items()}
        settings = {**known["variants"].get(attack, {}), **given}
        differing = {k: v for k, v in settings.items() if v != defaults[k]}
        found[_key(known["name"], differing)] = label(attack, combination)
    return found


def _typed(text: str, default: Scalar) -> Scalar:
    if isinstance(default, bool):
        return text.lower() in ("true", "1")
    try:
        return type(default)(text)
    except ValueError:
        return text  # the command says what is wrong with it


def _key(attack: str, settings: Mapping[str, Scalar]) -> str:
    return json.dumps([attack, sorted(settings.items())])


def run(options: argparse.Namespace, labels: Iterable[str], folder: Path) -> None:
    """Run and score every setting with every seed."""
    for seed in seeds_of(options.seeds):
        print(f"seed {seed}", file=sys.stderr)
        leakboard(
            "run", "--suite", options.suite, "--task", options.task, "--attack", ",".join(labels),
            "--defense", options.defense, "--seed", str(seed), "--results", str(folder),
            "--time-limit", str(options.time_limit),
        )  # fmt: skip
    leakboard("score", "--results", str(folder))


def gather(folder: Path, labels: Mapping[str, str], metric: str) -> list[Trial]:
    """A trial for each snapshot of each record."""
    trials = []
    for path in sorted(folder.rglob("*.score.json")):
        record = json.loads(path.with_name(path.name.replace(".score", "")).read_text())
        setting = labels.get(_key(record["attack"], record["attack_parameters"]))
        if setting is None:
            continue  # of another call with the same folder
        values = json.loads(path.read_text())["metrics"].get(metric)
        if values is None:
            raise BadInput(f"{record['task']} has no {metric}: {record['reason'] or 'try another'}")
        for snapshot, value in zip(record["snapshots"], values["values"], strict=True):
            place = record["task"], path.parent.name, record["seed"], snapshot["index"]
            trials.append(Trial(setting, *place, value, snapshot["seconds"]))
    return trials


# --------------------------------------------------------------------------------- what it is worth


def standings(trials: Sequence[Trial], lower_is_better: bool = False) -> list[Standing]:
    """Settings by their mean, each compared with the best on the very same snapshots."""
    values: dict[str, dict[Place, float]] = defaultdict(dict)
    for trial in trials:
        place = trial.task, trial.defense, trial.seed, trial.snapshot
        values[trial.setting][place] = trial.value
    seconds = {s: [t.seconds or 0.0 for t in trials if t.setting == s] for s in values}
    means = {setting: fmean(found.values()) for setting, found in values.items()}
    order = sorted(means, key=lambda setting: means[setting] * (1 if lower_is_better else -1))
    best = values[order[0]]
    return [_standing(s, values[s], best, fmean(seconds[s])) for s in order]


def _standing(
    setting: str, own: Mapping[Place, float], best: Mapping[Place, float], seconds: float
) -> Standing:
    from scipy.stats import t

    pairs = [own[place] - best[place] for place in best if place in own]
    mean = fmean(pairs)
    half = 0.0
    if len(pairs) > 1:
        error = stdev(pairs) / len(pairs) ** 0.5
        half = float(t.ppf((1 + CONFIDENCE) / 2, len(pairs) - 1)) * error
    ends = mean - half, mean + half
    return Standing(setting, fmean(own.values()), mean, *ends, len(pairs), seconds)


def write(path: Path, trials: Sequence[Trial], found: Sequence[Standing], command: str) -> None:
    """All trials as a table, or with the standings and the command as JSON."""
    if path.suffix == ".json":
        body = {"command": command, "standings": [asdict(s) for s in found]}
        path.write_text(json.dumps(body | {"trials": [asdict(t) for t in trials]}, indent=1) + "\n")
        return
    with path.open("w", newline="") as stream:
        table = csv.DictWriter(stream, list(Trial.__dataclass_fields__))
        table.writeheader()
        table.writerows(asdict(trial) for trial in trials)


def show(found: Sequence[Standing], metric: str) -> None:
    """The standings, best first."""
    size = max(len(s.setting) for s in found)
    print(f"{'setting'.ljust(size)}  {metric}  difference to the best, 95 % paired interval")
    for number, s in enumerate(found):
        beside = f"{s.difference:+.4f} [{s.low:+.4f}, {s.high:+.4f}]" if number else "best"
        effort = f"n={s.snapshots}, {s.seconds:.3g} s each"
        print(f"{s.setting.ljust(size)}  {s.mean:.4f}  {beside}  {effort}")


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the caller wants."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("submissions.tuning", None, __doc__, formatter_class=plain)
    parser.add_argument(
        "attack", help="attacks by commas, or variants whose settings are the start"
    )
    parser.add_argument("--suite", default="mini")
    parser.add_argument("--task", required=True, help="names or globs, by commas")
    parser.add_argument("--defense", default="none", help="names, by commas")
    parser.add_argument("--grid", action="append", default=[], help="name=value,value; repeatable")
    parser.add_argument("--seeds", default="0-9", help="such as 0-9 or 0,3,7 (0-9)")
    parser.add_argument("--metric", default="rouge1")
    parser.add_argument("--lower", action="store_true", help="a lower metric is better")
    parser.add_argument("--time-limit", type=float, default=600.0, help="seconds of a cell")
    parser.add_argument("--results", type=Path, help="keep records here, and continue with them")
    parser.add_argument("--out", type=Path, required=True, help="a .csv or .json file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try everything, write it down, print what is best."""
    options = options_of(arguments)
    try:
        seeds_of(options.seeds)  # before anything is run
        grid = grid_of(options.grid)
        named = [labels_of(attack, grid) for attack in options.attack.split(",")]
        labels = {key: each for part in named for key, each in part.items()}
        with TemporaryDirectory() as scratch:
            folder = options.results or Path(scratch)
            run(options, labels.values(), folder)
            trials = gather(folder, labels, options.metric)
    except BadInput as problem:
        print(problem, file=sys.stderr)
        return 2
    if not trials:
        print("Nothing was scored; run the attack once by hand to see why.", file=sys.stderr)
        return 2
    found = standings(trials, options.lower)
    write(options.out, trials, found, " ".join(arguments or sys.argv[1:]))
    show(found, options.metric)
    return 0


if __name__ == "__main__":
    sys.exit(main())
