"""The metric table is complete and light."""

from __future__ import annotations

import subprocess
import sys

from benchmark.metrics.table import METRICS, of_kind, on_boards

RECOVERY = (
    "rouge1 rouge2 rougeL best_rouge1 best_rouge2 best_rougeL exact_match nerr type_precision "
    "type_recall type_f1 type_count_error ptlr sentence_recall sentence_precision "
    "rouge1_with_specials"
)
UTILITY = "perplexity mcc accuracy accuracy_global accuracy_local loss bleu"
COST = "seconds peak_mb step_seconds bytes_up bytes_down epsilon"


def test_names_are_exactly_those_of_the_design() -> None:
    assert [metric.name for metric in of_kind("recovery")] == RECOVERY.split()
    assert [metric.name for metric in of_kind("utility")] == UTILITY.split()
    assert [metric.name for metric in of_kind("cost")] == COST.split()
    assert list(METRICS) == f"{RECOVERY} {UTILITY} {COST}".split()


def test_every_metric_explains_itself_in_one_line() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.title
        assert metric.meaning.endswith(".")
        assert "\n" not in metric.meaning


def test_directions() -> None:
    lower = {name for name, metric in METRICS.items() if metric.direction == "lower"}
    assert lower == {"type_count_error", "perplexity", "loss", *COST.split()}
    assert METRICS["rouge1"].better_for_attack == "higher"
    assert METRICS["type_count_error"].better_for_attack == "lower"
    assert METRICS["accuracy"].better_for_attack is None


def test_shares_lie_between_0_and_1_and_nothing_else_does() -> None:
    shares = {name for name, metric in METRICS.items() if metric.bounds == (0.0, 1.0)}
    assert shares == {name for name, metric in METRICS.items() if metric.unit == "fraction"}
    assert METRICS["perplexity"].bounds == (1.0, None)
    assert METRICS["mcc"].bounds == (-1.0, 1.0)


def test_the_published_scale_is_on_no_board() -> None:
    assert [name for name in METRICS if not on_boards(name)] == ["rouge1_with_specials"]
    assert on_boards("a metric that nobody knows")


def test_import_is_light() -> None:
    code = (
        "import sys, benchmark.metrics.table; "
        "print({'torch', 'numpy', 'scipy', 'rouge_score', 'spacy', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
