"""Product code and pages speak the words of the field, in American spelling."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.conftest import ROOT

OWN_WORDS = re.compile(
    r"(?<![a-z])(fences?|fenced|rooms?|house|zygotes?|mail|drafts|sheets?|seals?|sealed|priced?|prices"
    r"|floors?|yardsticks?|chosen|planned|hear|say|misfits?|obstacles?|silences?|exhibits?|planes?"
    r"|heed|heeds|mend|mended|audible|unhurt|heard|rang|work off)(?![a-z])",
    re.IGNORECASE,
)
BRITISH = re.compile(
    r"(?<![a-z])(colou?rs?(?<=ours)|colour|catalogues?|behaviours?|neighbours?|(?:token|optim|normal|initial"
    r"|serial|synchron|material|capital|minim|maxim|recogn|penal|regular)is(?:e|es|ed|er|ing|ation)|unlabelled)(?![a-z])",
    re.IGNORECASE,
)
WRITTEN = (".py", ".html", ".css", ".js")
ENGLISH_GRAMMAR = ("tasks/corpora/builtin/inflect.py",)
"""Word lists of generated text, not our own words."""
LATER = {("submissions/blocks/dager/context.py", "chosen")}
"""A name that is to go with the next change of that code: a digest of the file is part of the
published records of DAGER, which a new name alone would age."""


def product_files() -> list[str]:
    packages = ["benchmark", "tasks", "submissions", "leaderboard"]
    listed = subprocess.run(
        ["git", "ls-files", *packages], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [
        name
        for name in listed.stdout.split()
        if name.endswith(WRITTEN) and name not in ENGLISH_GRAMMAR
    ]


@pytest.mark.parametrize("words", [OWN_WORDS, BRITISH], ids=["own words", "British spelling"])
def test_product_code_speaks_plainly(words: re.Pattern[str]) -> None:
    found = [
        f"{name}:{number}: {match.group()}"
        for name in product_files()
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        for match in words.finditer(line)
        if (name, match.group()) not in LATER
    ]
    assert found == []
