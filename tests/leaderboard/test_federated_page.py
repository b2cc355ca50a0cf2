"""The page of federated methods, and the partition that a task's page draws."""

from __future__ import annotations

import csv
import io

import pytest

from benchmark.results.schema import Status
from benchmark.results.utility_summary import UtilityCost
from leaderboard.data.catalog import Catalog, SuiteRow, TaskRow
from leaderboard.render.pages import render_pages
from leaderboard.render.slugs import task_page
from leaderboard.views.board import Leaderboard
from leaderboard.views.federated import HEIGHT, WIDTH, drawn_partition, partition_of
from tests.leaderboard.samples import make_value

COUNTS = ((3, 1), (0, 8), (2, 2))
METRICS = {
    "accuracy_global": make_value([0.8]),
    "accuracy_local": make_value([0.9]),
    "bytes_up": make_value([2000.0]),
    "bytes_down": make_value([3000.0]),
}
COST = UtilityCost(
    "s/news", "fedavg", METRICS, None, Status.OK, "", (100,), {1: 0.5, 2: 0.75}, COUNTS
)
COSTS = {("s/news", "fedavg"): COST}


def test_every_client_has_a_bar_as_high_as_its_rows_are_many() -> None:
    drawn = drawn_partition(COUNTS)
    assert (drawn.clients, drawn.labels, drawn.fewest, drawn.most) == (3, 2, 4, 8)
    assert len(drawn.stripes) == 5  # a label without rows has none
    for client, own in enumerate(COUNTS):
        bar = [s for s in drawn.stripes if s.x == pytest.approx(WIDTH * client / 3)]
        assert sum(s.height for s in bar) == pytest.approx(HEIGHT * sum(own) / 8)
        assert max(s.y + s.height for s in bar) == pytest.approx(HEIGHT)
    assert len({drawn.color(label) for label in range(2)}) == 2


def test_a_task_without_a_training_has_no_partition() -> None:
    assert partition_of("s/news", COSTS) is not None
    assert partition_of("s/other", COSTS) is None


def test_pages_show_the_partition_the_methods_and_their_curve() -> None:
    tasks = tuple(TaskRow(f"s/{name}", "federated", "Sorts.") for name in ("news", "other"))
    catalog = Catalog((SuiteRow("s", "Samples."),), tasks)
    pages = render_pages(Leaderboard((), catalog, COSTS))
    news, other = (pages[task_page(task.name)] for task in tasks)
    assert news.count("<rect") == 5
    assert "3 clients with 4 to 8 rows of 2 labels" in news
    assert "<rect" not in other
    for file in ("data/federated-s.news.csv", "figures/s.news-curves.csv"):
        assert f'href="{file}"' in pages["federated.html"]
    assert pages["figures/s.news-curves.csv"] == (
        "method,round,accuracy\nfedavg,1,0.5\nfedavg,2,0.75\n"
    )
    assert "<path" in pages["figures/s.news-curves.svg"]
    (method,) = csv.DictReader(io.StringIO(pages["data/federated-s.news.csv"]))
    assert (method["method"], method["accuracy_local"], method["bytes_up"]) == (
        "fedavg",
        "0.9",
        "2000.0",
    )
