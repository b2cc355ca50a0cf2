"""The architecture as DESIGN draws it, read off the syntax trees: who may import whom."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGES = ("benchmark", "tasks", "submissions", "leaderboard")
REGISTRY = "benchmark.plugins.registry"


def modules(base: Path, package: str) -> dict[str, Path]:
    """All modules of a package by their dotted names."""
    found = {}
    for path in sorted((base / package).rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, everywhere: bool) -> Iterator[str]:
    """Names that a module imports: at its top and under `TYPE_CHECKING`, or in functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree)) if everywhere else _top(tree.body)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _top(body: list[ast.stmt]) -> list[ast.AST]:
    """Statements that run, or that a type checker reads, when the module is imported."""
    found: list[ast.AST] = []
    for node in body:
        found.append(node)
        if isinstance(node, ast.If | ast.Try):
            found += _top([*node.body, *node.orelse])
    return found


def within(name: str, *packages: str) -> bool:
    """Whether a dotted name is one of the packages or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def own(names: Iterator[str]) -> list[str]:
    """The imports that point into the four packages."""
    return [name for name in names if within(name, *PACKAGES)]


def owner(name: str, known: dict[str, Path]) -> str:
    """The module that an imported name belongs to."""
    return name if name in known else name.rpartition(".")[0]


# ---------------------------------------------------------------------------------- the arrows


ALLOWED = {
    "benchmark": ("benchmark",),
    "tasks": ("tasks", "benchmark"),
    "leaderboard": ("leaderboard", "benchmark"),
    "submissions.attacks": ("benchmark.spec", "submissions.blocks"),
    "submissions.defenses": ("benchmark.spec", "submissions.blocks"),
    "submissions.blocks": ("benchmark.spec", "submissions.blocks"),
}


def against_the_arrows(base: Path) -> list[str]:
    """Every import, in functions too, that points where it may not."""
    wrong = []
    for package, allowed in ALLOWED.items():
        for module, path in modules(base, package.replace(".", "/")).items():
            names = own(imports(path, everywhere=True))
            wrong += [f"{module} imports {name}" for name in names if not within(name, *allowed)]
    return wrong


def test_imports_follow_the_arrows() -> None:
    assert against_the_arrows(ROOT) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("benchmark/metrics/new.py", "from tasks.corpora import load"),
        ("benchmark/runs/new.py", "def f():\n    import leaderboard.render"),
        ("submissions/attacks/new.py", "from benchmark.suites import Task"),
        ("submissions/blocks/new.py", "from submissions.attacks import film"),
        ("tasks/new.py", "if TYPE_CHECKING:\n    from submissions import blocks"),
    ],
)
def test_an_import_against_the_arrows_is_seen(tmp_path: Path, file: str, line: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(line + "\n")
    assert len(against_the_arrows(tmp_path)) == 1


def test_only_the_registry_reaches_the_other_packages_by_name() -> None:
    """`import_module("tasks...")` and the like, which no import statement shows."""
    for module, path in modules(ROOT, "benchmark").items():
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        named = [
            argument.value
            for call in calls
            if ast.unparse(call.func).endswith(("import_module", "__import__"))
            for argument in call.args
            if isinstance(argument, ast.Constant) and within(str(argument.value), *PACKAGES[1:])
        ]
        assert bool(named) == (module == REGISTRY), module


# -------------------------------------------------------------------------------------- cycles


def package_graph(base: Path) -> dict[str, set[str]]:
    """Which part of `benchmark` imports which: its packages, and the files beside them."""
    graph: dict[str, set[str]] = {}
    for module, path in modules(base, "benchmark").items():
        part = module.split(".")[1] if "." in module else module
        targets = {n.split(".")[1] for n in own(imports(path, everywhere=False))}
        graph.setdefault(part, set()).update(targets - {part})
    return graph


def test_the_packages_of_the_harness_have_no_cycle() -> None:
    order = list(TopologicalSorter(package_graph(ROOT)).static_order())
    assert order.index("plugins") < order.index("execution") < order.index("runs")
    assert order.index("results") < order.index("cli")


def test_a_cycle_is_seen(tmp_path: Path) -> None:
    for name, line in (
        ("metrics", "from benchmark.results.schema import Record"),
        ("results", "if TYPE_CHECKING:\n    from benchmark.metrics import table"),
    ):
        (tmp_path / "benchmark" / name).mkdir(parents=True)
        (tmp_path / "benchmark" / name / "new.py").write_text(line + "\n")
    with pytest.raises(CycleError):
        list(TopologicalSorter(package_graph(tmp_path)).static_order())


def reached(start: str) -> set[str]:
    """All modules that are imported when those of a package are, from one to the next."""
    known = {name: path for package in PACKAGES for name, path in modules(ROOT, package).items()}
    todo = [name for name in known if within(name, start)]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen or name not in known:
            continue
        seen.add(name)
        for imported in own(imports(known[name], everywhere=False)):
            module = owner(imported, known)
            todo += [module, *(module.rsplit(".", n)[0] for n in range(1, module.count(".") + 1))]
    return seen


def test_rendering_does_not_reach_the_engine() -> None:
    seen = reached("leaderboard")
    assert "benchmark.results.schema" in seen
    assert not [name for name in seen if within(name, "benchmark.execution")]


# ---------------------------------------------------------------------------------------- shape


def test_the_harness_shows_its_packages() -> None:
    files = [path.name for path in (ROOT / "benchmark").iterdir() if path.is_file()]
    assert len(files) <= 9, files


def test_every_declared_dependency_is_used() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=!~\[; ]", line)[0].lower() for line in project["dependencies"]}
    used = {
        name.split(".")[0]
        for package in PACKAGES
        for path in modules(ROOT, package).values()
        for name in imports(path, everywhere=True)
    }
    provided: dict[str, set[str]] = {}
    for module, distributions in packages_distributions().items():
        for distribution in distributions:
            provided.setdefault(distribution.lower().replace("_", "-"), set()).add(module)
    unused = {name for name in declared if not provided.get(name.replace("_", "-"), set()) & used}
    assert unused == set()


@pytest.mark.parametrize("package", ["benchmark", "tasks", "submissions", "leaderboard"])
def test_one_name_one_meaning(package: str) -> None:
    """No two classes of one package share a name."""
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
