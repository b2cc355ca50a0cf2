"""An audit of a model folder of each architecture, from its files to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmark.auditing.door import audit
from benchmark.auditing.report import Report
from benchmark.auditing.request import AuditRequest
from benchmark.execution.engines.local import LocalEngine
from benchmark.suites import ObjectiveName
from tests.tiny_models import ARCHITECTURES, LABELS, SOURCES, TEXTS, make_folder

READ_EXACTLY = [kind for kind, shape in ARCHITECTURES.items() if shape[1] != "translation"]
WAITING = 3600.0
"""Seconds that nothing here needs: a busy machine changes no answer."""


def written(path: Path, count: int = 3) -> Path:
    rows = zip(TEXTS[:count], LABELS[:count], SOURCES[:count], strict=True)
    lines = [json.dumps({"text": t, "label": y, "source": s}) for t, y, s in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def run(
    kind: str, folder: Path, engine: LocalEngine, attacks: tuple[str, ...], **more: Any
) -> Report:
    objective: ObjectiveName = ARCHITECTURES[kind][1]  # type: ignore[assignment]
    request = AuditRequest(
        objective=objective, attacks=attacks, defenses=(), seconds=WAITING, sentences=3, **more,
    )  # fmt: skip
    text = written(folder / "texts.jsonl")
    return audit(make_folder(folder / kind, kind), None, text, request, running=engine)


@pytest.mark.parametrize("kind", READ_EXACTLY)
def test_sentences_are_read_back_exactly(kind: str, engine: LocalEngine, tmp_path: Path) -> None:
    report = run(kind, tmp_path, engine, ("dager",))
    assert report.setup.architecture == kind
    assert report.undefended.exact == 3, report.attacks
    assert report.verdict[0].startswith("3 of 3 sentences can be read back exactly")
    assert {s.text for s in report.undefended.sentences} == set(TEXTS[:3])


@pytest.mark.parametrize("kind", ["t5", "marian"])
def test_translators_show_their_tokens(kind: str, engine: LocalEngine, tmp_path: Path) -> None:
    report = run(kind, tmp_path, engine, ("rlg", "bag_of_words", "dager"))
    assert report.undefended.type_f1 > 0.8, report.attacks
    assert all(leak.leaked for leak in report.undefended.leaks("numbers"))
    refused = next(a for a in report.attacks if a.attack == "dager")
    assert refused.status == "unsupported"
    assert "not defined for the objective translation" in refused.reason
