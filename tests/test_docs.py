"""Documentation stays true: its links, commands and options exist, and its forms parse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

from benchmark.cli import app
from tests.conftest import ROOT

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
MOST_LINES = 140
"""Of the README: whatever needs more room has a page in `docs/`."""
COMMAND = typer.main.get_command(app)

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CALL = re.compile(r"\bleakboard[ \t]+([a-z][\w-]*)(?:[ \t]+([a-z][\w-]*))?")
"""A subcommand and the word after it, in prose or in a block."""
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def subcommands(command: object) -> dict[str, typer.core.TyperCommand]:
    """Commands below a group by name; none below a plain command."""
    found: dict[str, typer.core.TyperCommand] = getattr(command, "commands", {})
    return found


def anchors(page: Path) -> set[str]:
    """Anchors that the headings of a page get."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_there_is_something_to_test() -> None:
    names = {path.name for path in PAGES}
    assert {"README.md", "commands.md", "methods.md", "threat-model.md", "models.md"} <= names
    assert {form.name for form in FORMS} >= {"new-attack.yml", "new-defense.yml"}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MOST_LINES


PLACEHOLDER = re.compile(r"(?<![\w/.`])@[a-z]+\b")


@pages
def test_no_placeholder_waits_for_a_figure(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert PLACEHOLDER.search("bought by @name.")
    assert not PLACEHOLDER.search("film@wikitext, a@b.org")
    assert PLACEHOLDER.findall(text) == []


# ----------------------------------------------------------------------------------------- links


@pages
def test_relative_links_resolve(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_relative_to(ROOT), f"{target} leads out of the repository"
        assert file.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(file), f"{target}: no such heading"


# -------------------------------------------------------------------------------------- commands


@pages
def test_commands_exist(page: Path) -> None:
    known = subcommands(COMMAND)
    for name, word in CALL.findall(page.read_text(encoding="utf-8")):
        assert name in known, f"there is no `leakboard {name}`"
        group = subcommands(known[name])
        assert not (group and word) or word in group, f"there is no `leakboard {name} {word}`"


@pages
def test_options_exist(page: Path) -> None:
    for line in page.read_text(encoding="utf-8").splitlines():
        for part in re.split(r"&&|;|`", line):
            if (call := CALL.search(part)) and call[1] in subcommands(COMMAND):
                accepted = options(*call.groups())
                for option in OPTION.findall(part[call.end(1) :]):
                    assert option in accepted, f"{part.strip()}: no option {option}"


def options(name: str, word: str | None) -> set[str]:
    """Options of a subcommand, or of a command of its group."""
    command = subcommands(COMMAND)[name]
    command = subcommands(command).get(word or "", command)
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


def test_the_reference_has_every_command() -> None:
    reference = set(CALL.findall((ROOT / "docs" / "commands.md").read_text(encoding="utf-8")))
    for name, command in subcommands(COMMAND).items():
        visible = [word for word, each in subcommands(command).items() if not each.hidden]
        assert command.hidden or name in {first for first, _ in reference}, name
        assert all((name, word) in reference for word in visible), (name, visible)


# --------------------------------------------------------------------------------------- figures


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "tasks/models/weights").glob("*/metrics.json")),
    ids=lambda path: path.parent.name,
)
def test_the_table_of_models_holds_what_training_measured(path: Path) -> None:
    facts = json.loads(path.read_text(encoding="utf-8"))
    lines = (ROOT / "docs" / "models.md").read_text(encoding="utf-8").splitlines()
    start = f"| `{path.parent.name}` | {facts['architecture']} | {facts['parameters']:,} |"
    assert any(line.startswith(start) for line in lines), start
    for score in facts["scores"]:
        values = f"{score['trained']:.3g} | {score['untrained']:.3g}"
        row = f"| `{path.parent.name}` | {score['corpus']} | {score['metric']} | {values} |"
        assert row in lines


# ----------------------------------------------------------------------------------------- forms


@pytest.mark.parametrize(
    "path",
    [*sorted((ROOT / ".github").rglob("*.yml")), ROOT / ".pre-commit-config.yaml"],
    ids=lambda path: path.name,
)
def test_yaml_parses(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_is_complete(path: Path) -> None:
    if path.name == "config.yml":
        return
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert form["name"]
    assert form["description"]
    asked = [item for item in form["body"] if item["type"] != "markdown"]
    assert len({item["id"] for item in asked}) == len(asked)
    assert all(item["attributes"]["label"] for item in asked)


def test_the_workflow_runs_the_tests() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert any(step.get("run") == "make test" for step in steps)


def test_hooks_are_local() -> None:
    """A commit needs nothing from the network."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    assert {repository["repo"] for repository in config["repos"]} == {"local"}
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks)
