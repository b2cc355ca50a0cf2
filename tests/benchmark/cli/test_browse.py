"""`list` and `describe`: everything there is, findable by name and readable at 80 columns."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from benchmark.cli import describing
from benchmark.cli.browse import PLURALS
from benchmark.cli.listing import KINDS, Item, collect, short_columns
from benchmark.errors import UserError
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import Kind
from tests.conftest import Command


def find(catalogs: tuple[Catalog, Catalog], name: str) -> Item:
    def catalog(kind: Kind) -> Catalog:
        return catalogs[0] if kind == "attack" else catalogs[1]

    return describing.find(name, catalog)


@pytest.mark.parametrize("what", PLURALS)
def test_a_list_has_one_line_an_item(leakboard: Command, what: str) -> None:
    plain = leakboard("list", what)
    assert plain.returncode == 0, plain.stderr
    items = json.loads(leakboard("list", what, "--json").stdout)[what]
    rows = list(csv.DictReader(io.StringIO(leakboard("list", what, "--csv").stdout)))
    lines = plain.stdout.splitlines()
    names = [item["name"] for item in items]
    assert [line.split()[0] for line in lines] == names == [row["name"] for row in rows]
    assert all(len(line) <= 80 and line.isprintable() for line in lines)


def test_everything_listed_can_be_described(catalogs: tuple[Catalog, Catalog]) -> None:
    """By its name behind its kind, whatever else has the name; no word gets lost."""
    for kind in KINDS:
        for item in collect(kind, lambda role: catalogs[role == "defense"]).items:
            found = find(catalogs, f"{kind}:{item['name']}")
            assert (found["kind"], found["name"]) == (kind, item["name"])
            lines = list(describing.lines(found))
            long = [line for line in lines if len(line) > 80]
            assert all(len(line.split()[-1]) > 50 for line in long), long  # a path
            said = " ".join(" ".join(lines).split())
            assert str(item.get("summary", "")) in said
            assert len(short_columns(kind, item)) in (1, 2)


def test_a_submission_is_described_with_parameters_and_variants(
    catalogs: tuple[Catalog, Catalog],
) -> None:
    said = "\n".join(describing.lines(find(catalogs, "attack:lamp_cos")))
    entry = catalogs[0].entries["lamp_cos"]
    for name, rule in entry.parameters.items():
        assert f"\n  {name}=" in said
        assert rule.meaning.split()[0] in said
    assert "\n  simulate_steps=false" in said  # as the command line takes it
    assert all(f"\n  {name}\n" in said for name in entry.variants)
    assert find(catalogs, "lamp_cos_quick")["name"] == "lamp_cos"
    assert find(catalogs, "lamp_cos")["digest"] == entry.digest


def test_an_attack_says_what_it_is_told(catalogs: tuple[Catalog, Catalog]) -> None:
    """In its line of the list, and for each variant that is told something else."""
    dager = find(catalogs, "attack:dager")
    assert short_columns("attack", dager)[0] == "told: noise-scale"
    assert short_columns("attack", find(catalogs, "rlg"))[0] == "told: nothing"
    said = "\n".join(describing.lines(dager))
    assert "told:\n  dager: noise-scale\n" in said
    assert "  dager_paper: nothing\n  dager_lengths: lengths, noise-scale\n" in said
    assert "  dager_brief: " not in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dagr", "Nothing is called 'dagr'; did you mean dager"),
        ("attack:dagr", "There is no attack called 'dagr'; did you mean dager"),
        ("cola", "means several things; write task:mini/cola or task:open/cola"),
        ("mini/coal", "There is no task called 'mini/coal'; did you mean mini/cola"),
        ("xyzzy", "see `leakboard list tasks`, `leakboard list attacks`"),
        ("", "Nothing is called ''"),
        ("syntax", "syntax.py is broken: SyntaxError in line 1"),
    ],
)
def test_a_name_that_means_nothing_or_too_much(
    catalogs: tuple[Catalog, Catalog], name: str, words: str
) -> None:
    with pytest.raises(UserError) as caught:
        find(catalogs, name)
    assert words in str(caught.value)


def test_the_command_describes(leakboard: Command, tmp_path: Path) -> None:
    told = leakboard("describe", "rougeL", "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["measures"] == "recovery"
    short = leakboard("describe", "gpt2-tied")
    assert short.stdout.startswith("model builtin:gpt2-tied\n")
    wrong = leakboard("describe", "model:gpt3")
    assert wrong.returncode == 2
    assert len(wrong.stderr.splitlines()) == 1
