"""Revisions of the hub: pinned at the first download, checked ever after."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmark.errors import UserError
from tasks import corpora, hub_lock
from tasks.models.resolve import locate

FIRST, SECOND = "1" * 40, "2" * 40


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache with two revisions of a model; the hub itself answers with the newest."""
    import huggingface_hub
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("LEAKBOARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub_lock, "PROJECT", tmp_path / "project.json")
    for revision in (FIRST, SECOND):
        snapshot = tmp_path / "hub" / "models--some--model" / "snapshots" / revision
        shutil.copytree(locate("builtin:gpt2-tied"), snapshot)
    answers(monkeypatch, FIRST)
    assert huggingface_hub.HfApi().model_info("some/model").sha == FIRST
    return tmp_path


def answers(monkeypatch: pytest.MonkeyPatch, commit: str) -> None:
    """The hub's main branch is at this commit."""
    told = SimpleNamespace(sha=commit)
    for name in ("model_info", "dataset_info"):
        monkeypatch.setattr(f"huggingface_hub.HfApi.{name}", lambda *_: told)


def test_a_revision_stays_what_it_was_first(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locate("hub:some/model@locked").name == FIRST
    answers(monkeypatch, SECOND)
    assert locate("hub:some/model@locked").name == FIRST
    stored = json.loads(hub_lock.lock_path().read_text())["models"]["some/model"]
    assert stored["commit"] == FIRST
    assert len(stored["digest"]) == 64


def test_the_project_s_own_lock_wins(hub: Path) -> None:
    pins = {"models": {"some/model": {"commit": SECOND}}}
    hub_lock.PROJECT.write_text(json.dumps(pins))
    assert locate("hub:some/model@locked").name == SECOND


def test_changed_files_are_refused(hub: Path) -> None:
    folder = locate("hub:some/model@locked")
    config = folder / "config.json"
    config.write_text(config.read_text().replace("{", '{"changed": 1,', 1))
    with pytest.raises(UserError, match="not those that were first downloaded"):
        locate("hub:some/model@locked")


def test_corpora_are_pinned_as_well(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = corpora.digest("hub:some/rows/one@locked")
    assert first == corpora.digest(f"hub:some/rows/one@{FIRST}")
    answers(monkeypatch, SECOND)
    assert corpora.digest("hub:some/rows/one@locked") == first


def test_an_unreachable_hub_is_one_sentence(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lost)
    with pytest.raises(
        UserError, match=r"cannot be asked for the revision of some/model"
    ) as caught:
        locate("hub:some/model@locked")
    assert "\n" not in str(caught.value)
