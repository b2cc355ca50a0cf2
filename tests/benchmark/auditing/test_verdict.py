"""What an audit concludes, in plain sentences, and what is left of it without private words."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmark.auditing.redaction import RIGHT, WRONG, redacted
from benchmark.auditing.report import CAVEAT, Leak, Report
from benchmark.auditing.verdict import verdict
from benchmark.errors import UserError
from tests.audit_samples import SECRETS, attack, condition, sample_report


def test_the_leak_comes_first_and_names_what_leaked() -> None:
    said = verdict([condition()])
    assert said[0] == (
        "2 of 2 sentences can be read back exactly from one gradient, without a defense."
    )
    assert said[1].startswith("4 of 4 named entities leaked, such as Quimby")
    assert said[2] == "2 of 2 words with digits leaked, such as 90210."


def test_each_defense_gets_its_sentence() -> None:
    said = "\n".join(sample_report().verdict)
    assert "freeze_embeddings does not help: 2 of 2 sentences can still be read back" in said
    assert "dpsgd[epsilon=8.0] (ε = 8) stops all attacks tried." in said
    assert "prune helps in part: 1 of 2 sentences can be read back exactly" in said
    assert "mask could not be measured" in said
    assert "by batch size: 2 of 2 at 1, 1 of 2 at 2." in said


def test_an_attack_without_an_end_is_not_stopped() -> None:
    """Nobody knows what it would have read, and the verdict does not claim to."""
    stopped = condition("dpsgd", exact=0, effect="stops", unfinished=["dager", "tag"])
    said = verdict([condition(), stopped])
    assert "dpsgd stops the attacks that came to an end; dager and tag did not." in said


def test_a_sentence_has_one_period() -> None:
    name = Leak(text="Quimby Inc.", leaked=True)
    sentence = condition().sentences[0].model_copy(update={"entities": [name], "numbers": []})
    found = condition().model_copy(update={"sentences": [sentence]})
    assert verdict([found])[1] == "1 of 1 named entity leaked, such as Quimby Inc."


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (condition(exact=0, batch_size=4).model_copy(update={"rouge_l": 0.4}),
         "No sentence was read back exactly from one gradient of 4 sentences; dager comes closest"),
        (condition(exact=0).model_copy(update={"type_f1": 0.0}),
         "No attack tried has read anything from one gradient"),
        (condition().model_copy(update={"sentences": []}), "No attack tried has given an answer"),
    ],
)  # fmt: skip
def test_less_than_everything(found: object, words: str) -> None:
    assert verdict([found])[0].startswith(words)  # type: ignore[list-item]


def test_the_worst_is_the_attack_that_read_most() -> None:
    report = sample_report()
    assert report.worst is not None
    assert report.worst.attack == "dager"
    weaker = attack("bag_of_words", exact=0, rouge_l=None, type_f1=0.9)
    only = report.model_copy(update={"attacks": [weaker, *report.attacks[1:]]})
    assert only.worst == weaker
    assert report.model_copy(update={"attacks": report.attacks[1:]}).worst is None


def test_a_frame_has_a_row_for_each_attack(tmp_path: Path) -> None:
    frame = sample_report().to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["attack"].tolist() == ["dager", "random", "tag", "film"]
    assert frame.loc[0, "rouge_l"] == 1.0
    assert list(Report.model_validate_json(sample_report().model_dump_json()).to_pandas()) == list(
        frame
    )


def test_it_is_saved_as_a_page_or_as_data(tmp_path: Path) -> None:
    report = sample_report()
    data = json.loads(report.save(tmp_path / "report.json").read_text())
    assert data["caveat"] == CAVEAT
    assert Report.model_validate(report.model_dump()) == report
    assert report.save(tmp_path / "report.html").read_text().startswith("<!doctype html>")
    with pytest.raises(UserError, match="neither"):
        report.save(tmp_path / "report.pdf")


def test_a_redacted_report_has_no_private_word() -> None:
    report = redacted(sample_report())
    for text in (report.model_dump_json(), report.page()):
        assert not [secret for secret in SECRETS if secret.casefold() in text.casefold()]
    assert report.setup.redacted
    assert report.undefended.exact == 2
    right, wrong = report.conditions[3].sentences
    assert set(right.recovered.split()) == {RIGHT}
    assert set(wrong.recovered.split()) == {RIGHT, WRONG}
