"""An audit from end to end: the command, the notebook's door, and updates of one's own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmark import audit_update as public_audit_update
from benchmark.auditing.door import audit, audit_update
from benchmark.auditing.report import Report
from benchmark.auditing.request import AuditRequest
from benchmark.cli import app
from benchmark.errors import UserError
from benchmark.execution.engines.local import LocalEngine
from tests.conftest import ROOT, Command
from tests.tiny_models import LABELS, TEXTS, make_folder, make_model, make_tokenizer

WAITING = 3600.0
"""Seconds that nothing here needs: a busy machine changes no answer."""


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("models") / "gpt2", "gpt2")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS[:4]) + "\n")
    return path


def left_behind(cache: Path) -> list[Path]:
    """Files below a cache that an audit must not leave."""
    folders = [cache / name for name in ("audits", "truths", "staging", "own")]
    return [path for folder in folders if folder.exists() for path in folder.rglob("*")]


# ---------------------------------------------------------------------------------------- command


def test_the_command_as_a_user_calls_it(
    leakboard: Command, gpt2: Path, text: Path, tmp_path: Path
) -> None:
    """From files to a redacted report; nothing of the text is left anywhere else."""
    cache, out = tmp_path / "cache", tmp_path / "report"
    done = leakboard(
        "audit", "--model", gpt2, "--text", text, "--objective", "causal-lm", "--batch", 2,
        "--attack", "dager", "--attack", "random", "--defense", "freeze_embeddings",
        "--time", "30m", "--redact", "--jobs", 1, "--out", out, LEAKBOARD_CACHE=cache,
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
    kept = {path.relative_to(cache).parts[0] for path in cache.rglob("*") if path.is_file()}
    assert kept <= {"descriptions"}


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
    changes: dict[str, str],
    sentence: str,
    gpt2: Path,
    text: Path,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from benchmark.cli import main

    given = {"--model": str(gpt2), "--text": str(text), "--objective": "causal-lm"}
    given |= {"--out": str(tmp_path / "report"), **changes}
    words = [word for pair in given.items() for word in pair]
    monkeypatch.setattr("sys.argv", ["leakboard", "audit", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip()
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "report").exists()
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


def test_what_is_wrong_with_a_list_names_no_file(engine: LocalEngine) -> None:
    request = AuditRequest(objective="classification")
    model, tokenizer = make_model("bert"), make_tokenizer("classification")
    with pytest.raises(UserError, match="3 texts and 2 labels"):
        audit(model, tokenizer, TEXTS[:3], request, labels=LABELS[:2], running=engine)
    with pytest.raises(UserError, match="Line 2 of the texts has the label 9"):
        audit(model, tokenizer, TEXTS[:2], request, labels=[0, 9], running=engine)
    with pytest.raises(UserError, match="needs its tokenizer"):
        audit(model, None, TEXTS[:2], request, labels=[0, 1], running=engine)


# ---------------------------------------------------------------------------- updates of one's own


def gradients(model: Any, texts: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """What a training loop of one's own computes: the mean of the sentences' losses."""
    tokenizer = make_tokenizer("causal-lm")
    rows = [[0, *tokenizer(text).input_ids, 2] for text in texts]
    losses = [model(input_ids=torch.tensor([r]), labels=torch.tensor([r])).loss for r in rows]
    names, parameters = zip(*model.named_parameters(), strict=True)
    values = torch.autograd.grad(torch.stack(losses).mean(), parameters)
    return dict(zip(names, values, strict=True))


def test_named_gradients_without_the_text(engine: LocalEngine) -> None:
    model = make_model("gpt2")
    request = AuditRequest(batch_size=2, attacks=("dager",), seconds=WAITING)
    report = audit_update(
        model, make_tokenizer("causal-lm"), gradients(model, TEXTS[:2]), request, running=engine
    )
    found = report.undefended
    assert {sentence.recovered for sentence in found.sentences} == set(TEXTS[:2])
    assert all(sentence.text is None for sentence in found.sentences)
    assert report.verdict[0].startswith("2 sentences were recovered from the update by dager")
    assert "unknown" not in report.page().casefold()


def test_named_gradients_with_the_text(engine: LocalEngine) -> None:
    model = make_model("gpt2")
    request = AuditRequest(attacks=("dager",), seconds=WAITING)
    every = gradients(model, TEXTS[:1])
    shared = {name: value for name, value in every.items() if "wte" not in name}
    report = audit_update(
        model, make_tokenizer("causal-lm"), shared, request, texts=TEXTS[:1], running=engine
    )
    assert report.undefended.exact == 1


def test_flower_lists_as_the_guide_has_them(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example in the guide, run as printed, with arrays as Flower sends them."""
    guide = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n# flower-example\n(.*?)```", guide, re.DOTALL)
    assert code is not None
    model, tokenizer = make_model("gpt2"), make_tokenizer("causal-lm")
    server = [value.detach().numpy().copy() for value in model.state_dict().values()]
    rate, steps = 0.1, gradients(model, TEXTS[:2])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter -= rate * steps[name]
    client = [value.detach().numpy().copy() for value in model.state_dict().values()]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += rate * steps[name]

    def running_here(*given: Any, names: Any, difference: Any, **options: Any) -> Report:
        request = AuditRequest(**options, attacks=("bag_of_words",), seconds=WAITING)
        return audit_update(*given, request, names=names, difference=difference, running=engine)

    space: dict[str, Any] = {
        "model": model, "tokenizer": tokenizer, "client_parameters": client,
        "server_parameters": server, "audit_update": running_here,
    }  # fmt: skip
    exec(code.group(1), space)
    attacks = space["report"].attacks
    assert [attack.status for attack in attacks] == ["ok"]
    assert public_audit_update.__doc__ is not None
    assert "Flower" in public_audit_update.__doc__


@pytest.mark.parametrize(
    ("update", "names", "sentence"),
    [
        ({}, None, "The update is empty"),
        ({"transformer.wte.weight": torch.zeros(2, 2)}, None, r"has the shape \(2, 2\)"),
        ({"wte": torch.zeros(2)}, None, "'wte', which is no parameter"),
        ([torch.zeros(2)], None, "needs as many names"),
        ({"transformer.ln_f.bias": torch.full((64,), float("nan"))}, None, "NaN"),
    ],
)
def test_an_update_that_will_not_do(
    update: Any, names: Any, sentence: str, engine: LocalEngine
) -> None:
    request = AuditRequest(attacks=("bag_of_words",), seconds=WAITING)
    model, tokenizer = make_model("gpt2"), make_tokenizer("causal-lm")
    with pytest.raises(UserError, match=sentence):
        audit_update(model, tokenizer, update, request, names=names, running=engine)


def test_the_report_is_json_that_others_can_read(tmp_path: Path, engine: LocalEngine) -> None:
    model = make_model("gpt2")
    request = AuditRequest(attacks=("bag_of_words",), seconds=WAITING)
    report = audit_update(
        model, make_tokenizer("causal-lm"), gradients(model, TEXTS[:1]), request, running=engine
    )
    data = json.loads(report.save(tmp_path / "r.json").read_text())
    assert list(data)[:3] == ["format", "verdict", "caveat"]
