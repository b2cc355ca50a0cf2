"""An audit of an update that its user has computed: named gradients, or lists as in Flower."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmark.auditing.door import audit_update
from benchmark.auditing.report import Report
from benchmark.auditing.request import AuditRequest
from benchmark.errors import UserError
from benchmark.execution.engines.local import LocalEngine
from tests.conftest import ROOT
from tests.tiny_models import TEXTS, gradients, make_model, make_tokenizer

WAITING = 3600.0
"""Seconds that nothing here needs: a busy machine changes no answer."""


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

    def running_here(model: Any, tokenizer: Any, update: Any, names: Any, difference: bool,
                     **options: Any) -> Report:  # fmt: skip
        request = AuditRequest(**options, attacks=("bag_of_words",), seconds=WAITING)
        return audit_update(model, tokenizer, update, request, names, difference, running=engine)

    space: dict[str, Any] = {
        "model": model, "tokenizer": tokenizer, "client_parameters": client,
        "server_parameters": server, "audit_update": running_here,
    }  # fmt: skip
    exec(code.group(1), space)
    attacks = space["report"].attacks
    assert [attack.status for attack in attacks] == ["ok"]


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
