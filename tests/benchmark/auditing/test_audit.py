"""An audit from end to end: the command, models of the hub, and the notebook's door."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import benchmark
from benchmark.auditing.door import audit
from benchmark.auditing.report import Report
from benchmark.auditing.request import AuditRequest
from benchmark.cli import app
from benchmark.errors import UserError
from benchmark.execution.engines.local import LocalEngine
from benchmark.plugins.catalog import Catalog
from tests.conftest import Command
from tests.in_process import leakboard as leakboard_here
from tests.tiny_models import LABELS, TEXTS, gradients, make_folder, make_model, make_tokenizer

WAITING = 3600.0
"""Seconds that nothing here needs: a busy machine changes no answer."""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("models") / "gpt2", "gpt2")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS[:4]) + "\n")
    return path


@pytest.fixture
def own_cache(catalogs: tuple[Catalog, Catalog], cache: Path, tmp_path: Path) -> Path:
    """A cache in which nothing is but what submissions say of themselves."""
    shutil.copytree(cache / "descriptions", tmp_path / "cache" / "descriptions")
    return tmp_path / "cache"


_earlier: set[Path] = set()


@pytest.fixture(autouse=True)
def earlier(cache: Path) -> None:
    """Other tests share the cache; what they left is not the audit's."""
    _earlier.clear()
    _earlier.update(left_behind(cache))


def left_behind(cache: Path) -> list[Path]:
    """Files below a cache that an audit must not leave."""
    folders = [cache / name for name in ("audits", "truths", "staging", "own")]
    found = (path for folder in folders if folder.exists() for path in folder.rglob("*"))
    return [path for path in found if path not in _earlier]


# ---------------------------------------------------------------------------------------- command


def test_the_command_as_a_user_calls_it(
    leakboard: Command, gpt2: Path, text: Path, own_cache: Path, tmp_path: Path
) -> None:
    """From files to a redacted report; nothing of the text is left anywhere else."""
    out = tmp_path / "report"
    done = leakboard(
        "audit", "--model", gpt2, "--text", text, "--objective", "causal-lm", "--batch", 2,
        "--attack", "dager", "--attack", "random", "--defense", "freeze_embeddings",
        "--time", "30m", "--redact", "--jobs", 1, "--out", out, LEAKBOARD_CACHE=own_cache,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "First verdict: 4 of 4 sentences can be read back exactly" in done.stdout
    report = Report.model_validate_json((out / "report.json").read_text())
    assert report.undefended.exact == 4
    assert [c.defense for c in report.conditions][:2] == ["none", "freeze_embeddings"]
    assert "freeze_embeddings does not help" in " ".join(report.verdict)
    assert {each.batch_size for each in report.by_batch_size()} == {1, 2, 4}
    everything = done.stdout + (out / "report.json").read_text() + (out / "report.html").read_text()
    assert not [w for w in ("Alice", "Moore", "4711", "5550199", "Lisbon") if w in everything]
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "report.json"]
    kept = {path.relative_to(own_cache).parts[0] for path in own_cache.rglob("*") if path.is_file()}
    assert kept == {"descriptions"}


@pytest.fixture
def hub(gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache as huggingface_hub fills it, with links to blobs, and no network."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    home = tmp_path / "hub" / "models--some--model"
    blobs = shutil.copytree(gpt2, home / "blobs")
    snapshot = home / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for blob in blobs.iterdir():
        (snapshot / blob.name).symlink_to(f"../../blobs/{blob.name}")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(COMMIT)
    return tmp_path / "hub"


def test_a_model_of_the_hub(
    hub: Path, text: Path, catalogs: tuple[Catalog, Catalog], tmp_path: Path, cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """By its name and commit, out of the hub's cache, which stays as it is."""
    monkeypatch.setenv("LEAKBOARD_SUBMISSIONS", "")
    before = sorted(hub.rglob("*"))
    done = leakboard_here(
        "audit", "--model", f"hub:some/model@{COMMIT}", "--text", text, "--objective", "causal-lm",
        "--attack", "bag_of_words", "--defense", "freeze_embeddings", "--sentences", 1,
        "--time", "30m", "--jobs", 1, "--out", tmp_path / "report",
    )  # fmt: skip
    assert done.code == 0, done.err
    report = Report.model_validate_json((tmp_path / "report" / "report.json").read_text())
    assert report.setup.model == f"hub:some/model@{COMMIT}"
    assert report.attacks[0].type_f1 == 1.0
    assert sorted(hub.rglob("*")) == before
    assert left_behind(cache) == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (f"hub:other/model@{COMMIT}", "is not in the hub cache, and HF_HUB_OFFLINE forbids"),
        (f"hub:some/model@{COMMIT[::-1]}", "is not in the hub cache, and HF_HUB_OFFLINE forbids"),
        ("hub:some/model", "does not pin a revision"),
        (f"hub:a b/c@{COMMIT}", "is not the name of a hub repository"),
    ],
)
def test_a_model_that_the_hub_lacks_is_one_sentence(
    name: str, sentence: str, hub: Path, text: Path, tmp_path: Path, cache: Path
) -> None:
    given = {"--model": name, "--text": text, "--objective": "causal-lm"}
    assert_refused(given, sentence, tmp_path / "report", cache)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"--model": "nowhere"}, "There is no model folder nowhere"),
        ({"--text": "nowhere"}, "There is no text file nowhere"),
        ({"--objective": "regression"}, "is none of causal-lm"),
        ({"--objective": "classification"}, "has no labels"),
        ({"--time": "soon"}, "is not a time"),
        ({"--memory-limit": "0.1"}, "more than the 0.1 GiB of memory"),
        ({"--batch": "5"}, "fewer than a batch of 5"),
    ],
)
def test_a_mistake_is_one_sentence(
    changes: dict[str, str], sentence: str, gpt2: Path, text: Path, tmp_path: Path, cache: Path
) -> None:
    given = {"--model": gpt2, "--text": text, "--objective": "causal-lm"}
    assert_refused({**given, **changes}, sentence, tmp_path / "report", cache)


def without_configuration(model: Path, text: Path) -> None:
    (model / "config.json").unlink()


def pickled(model: Path, text: Path) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")


def unknown_architecture(model: Path, text: Path) -> None:
    (model / "config.json").write_text('{"model_type": "abacus"}')


def damaged_weights(model: Path, text: Path) -> None:
    weights = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(weights[: len(weights) // 2])


def empty_text(model: Path, text: Path) -> None:
    text.write_text("\n \n")


def labels_of_two_kinds(model: Path, text: Path) -> None:
    text.write_text('{"text": "a", "label": 0}\n{"text": "b", "label": "good"}\n')


def a_long_line(model: Path, text: Path) -> None:
    text.write_text("Alice owes Bob\n" + "Alice " * 60 + "\n")


@pytest.mark.parametrize(
    ("spoil", "objective", "sentence"),
    [
        (without_configuration, "causal-lm", "it has no config.json"),
        (pickled, "causal-lm", "pytorch_model.bin, a pickle"),
        (unknown_architecture, "causal-lm", "type abacus, which transformers does not know"),
        (damaged_weights, "causal-lm", "/model cannot be read"),
        (empty_text, "causal-lm", "holds no text"),
        (labels_of_two_kinds, "classification", "not both"),
        (a_long_line, "causal-lm", "has 62 tokens, more than the 48"),
    ],
)
def test_spoiled_files_are_one_sentence(
    spoil: Callable[[Path, Path], None],
    objective: str,
    sentence: str,
    gpt2: Path,
    text: Path,
    tmp_path: Path,
    cache: Path,
) -> None:
    model = shutil.copytree(gpt2, tmp_path / "model")
    spoil(model, text)
    given = {"--model": model, "--text": text, "--objective": objective}
    assert_refused(given, sentence, tmp_path / "report", cache)


def assert_refused(given: Mapping[str, object], sentence: str, out: Path, cache: Path) -> None:
    """One sentence, exit code 2, and nothing left behind."""
    words = [word for pair in given.items() for word in pair]
    done = leakboard_here("audit", *words, "--out", out)
    assert done.code == 2
    assert sentence in done.err
    assert str(cache) not in done.err  # but what the user has named
    assert len(done.err.strip().splitlines()) == 1
    assert not out.exists()
    assert left_behind(cache) == []


def test_memory_that_runs_out_is_one_sentence(
    engine: LocalEngine, gpt2: Path, text: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the estimate was too low, and a worker is stopped by its limit."""
    monkeypatch.setattr("benchmark.auditing.request.BASE_BYTES", 0)
    request = AuditRequest(attacks=("dager",), seconds=WAITING, memory_limit_gb=0.02)
    with pytest.raises(UserError, match=r"does not fit into memory .* smaller --batch"):
        audit(gpt2, None, text, request, running=engine)
    assert left_behind(cache) == []


def test_the_app_has_the_command() -> None:
    assert "audit" in {command.name or "" for command in app.registered_commands} | {
        getattr(command.callback, "__name__", "") for command in app.registered_commands
    }


# ----------------------------------------------------------------------------------- the notebook


def test_a_model_in_memory_with_labels(engine: LocalEngine, cache: Path) -> None:
    request = AuditRequest(
        objective="classification", attacks=("dager", "random"), defenses=("dpsgd[epsilon=8.0]",),
        seconds=WAITING, sentences=2,
    )  # fmt: skip
    seen: list[Report] = []
    report = audit(
        make_model("bert"), make_tokenizer("classification"), TEXTS[:2], request,
        labels=LABELS[:2], changed=seen.append, running=engine,
    )  # fmt: skip
    assert report.setup.model == "BertForSequenceClassification"
    assert report.undefended.exact == 2
    assert report.worst is not None
    assert report.worst.attack == "dager"
    private = report.defended()[0]
    assert private.epsilon == pytest.approx(8.0, rel=0.01)
    assert private.update_seconds is not None
    assert private.effect == "stops", report.attacks
    assert len(seen) == len(report.attacks)
    assert left_behind(cache) == []


def test_the_doors_as_a_notebook_opens_them(
    gpt2: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`from benchmark import audit`, with workers of its own, and what the guide does then."""
    monkeypatch.setenv("LEAKBOARD_SUBMISSIONS", "")  # other tests' odd ones take long to describe
    report = benchmark.audit(
        gpt2, None, TEXTS[:2], objective="causal-lm", attacks=["dager"], defenses=[],
        seconds=WAITING, jobs=1,
    )  # fmt: skip
    assert report.worst is not None
    assert report.worst.attack == "dager"
    assert report.to_pandas()["exact"].tolist() == [2, 2]  # one by one, and both together
    assert "<!doctype html>" in report.save(str(tmp_path / "report.html")).read_text()
    model = make_model("gpt2")
    seen = benchmark.audit_update(
        model, make_tokenizer("causal-lm"), gradients(model, TEXTS[:1]), attacks=["bag_of_words"],
        seconds=WAITING, jobs=1,
    )  # fmt: skip
    assert [attack.status for attack in seen.attacks] == ["ok"]
    assert left_behind(cache) == []


def test_what_is_wrong_with_a_list_names_no_file(engine: LocalEngine) -> None:
    request = AuditRequest(objective="classification")
    model, tokenizer = make_model("bert"), make_tokenizer("classification")
    with pytest.raises(UserError, match="3 texts and 2 labels"):
        audit(model, tokenizer, TEXTS[:3], request, labels=LABELS[:2], running=engine)
    with pytest.raises(UserError, match="Line 2 of the texts has the label 9"):
        audit(model, tokenizer, TEXTS[:2], request, labels=[0, 9], running=engine)
    with pytest.raises(UserError, match="needs its tokenizer"):
        audit(model, None, TEXTS[:2], request, labels=[0, 1], running=engine)
