"""One contract for every plug-in: `leakboard check` passes ours, and finds each planted fault.

Whatever lies in `submissions/` is found by itself; a new plug-in needs no line here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmark.conformance.problems import CHECKS
from benchmark.conformance.suite import Conformance
from benchmark.conformance.trials import TrialLimits
from benchmark.execution.engines.local import LocalEngine
from benchmark.paths import ROOT
from tests.submissions.faults import FAULTS, Fault

pytestmark = pytest.mark.long

KINDS = ("attack", "defense")
BUILT_IN = [
    f"{kind}:{path.stem}"
    for kind in KINDS
    for path in sorted((ROOT / "submissions" / f"{kind}s").glob("[!_]*.py"))
]


@pytest.fixture(scope="module")
def suite(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conformance]:
    """The conformance suite with one set of workers, which may read the faulty submissions."""
    folder = tmp_path_factory.mktemp("faulty")
    for fault in FAULTS:
        fault.write(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAKBOARD_SUBMISSIONS", str(folder))
        with LocalEngine(["cpu"], threads=1) as engine:
            yield Conformance(engine, TrialLimits(seconds=300.0))


@pytest.mark.parametrize("name", BUILT_IN)
def test_ours_keep_the_contract(name: str, suite: Conformance) -> None:
    problems = suite.check(suite.find(name), full=False)
    assert [str(problem) for problem in problems if not problem.warning] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault, suite: Conformance) -> None:
    """It is the only thing that is found, on its line, with what to do about it."""
    problems = suite.check(suite.find(fault.name), full=False, limits=fault.limits)
    found = [problem for problem in problems if problem.check != "baselines" or fault.warning]
    assert {problem.check for problem in found} == {fault.check}, list(map(str, problems))
    assert {problem.warning for problem in found} == {fault.warning}
    if fault.line is not None:
        assert {problem.line for problem in found} == {fault.line}, list(map(str, found))
    file = os.environ["LEAKBOARD_SUBMISSIONS"]
    assert all(problem.file.startswith(file) for problem in found)


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert {fault.check for fault in FAULTS} == set(CHECKS)
