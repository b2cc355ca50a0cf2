"""What the conformance suite looks at, and what it finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

CHECKS = {
    "loads": "it loads in the sandbox, and imports of this project only what a submission may",
    "metadata": "name, summary, objectives, outcome gradients and knowledge are declared",
    "parameters": "defaults, choices and variants lie within the declared ranges",
    "runs": "it answers every kind of task that it is defined for, or refuses with a reason",
    "objectives": "it works on every objective that it claims",
    "contract": "what it returns is what the contract asks for",
    "same seed": "the same seed gives the same answer",
    "order": "an answer depends on its own snapshot alone, not on those before it",
    "recover_many": "joint recovery answers as recovery one by one does",
    "knowledge": "what it declares to need suffices, without anything that it only uses",
    "device": "no tensor of the CPU meets those of the observation's device",
    "time": "it ends within the time limit",
    "memory": "it stays within the memory limit",
    "network": "it uses no network and starts no program",
    "files": "it touches no file but its own",
    "baselines": "it is better than the baselines somewhere (a warning only)",
}
"""Every check by name, with what has to hold."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, where, and what to do about it."""

    check: str
    file: str
    line: int
    words: str
    warning: bool = False

    def __str__(self) -> str:
        word = "warning" if self.warning else "error"
        return f"{self.file}:{self.line}: {word} ({self.check}): {self.words}."


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Errors first, in the order of the checks; of several of a kind on one line the first."""
    names = list(CHECKS)
    first: dict[tuple[str, str, int], Problem] = {}
    for problem in sorted(problems, key=lambda p: (p.warning, names.index(p.check))):
        first.setdefault((problem.check, problem.file, problem.line), problem)
    return list(first.values())
