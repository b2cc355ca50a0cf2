"""The page of federated methods, and the partition that a task's page draws."""

from __future__ import annotations

import csv
import io

from benchmark.results.schema import Status
from benchmark.results.utility_summary import UtilityCost
from leaderboard.data.catalog import Catalog, SuiteRow, TaskRow
from leaderboard.render.pages import render_pages
from leaderboard.render.slugs import task_page
from leaderboard.views.board import Leaderboard
from leaderboard.views.federated import Partition, partition_of
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


def test_a_partition_counts_clients_labels_and_rows() -> None:
    each = Partition(COUNTS)
    assert (each.clients, each.labels, each.fewest, each.most) == (3, 2, 4, 8)


def test_a_task_without_a_training_has_no_partition() -> None:
    assert partition_of("s/news", COSTS) is not None
    assert partition_of("s/other", COSTS) is None


def test_pages_show_the_partition_the_methods_and_their_curve() -> None:
    tasks = tuple(TaskRow(f"s/{name}", "federated", "Sorts.") for name in ("news", "other"))
    catalog = Catalog((SuiteRow("s", "Samples."),), tasks)
    pages = render_pages(Leaderboard((), catalog, COSTS))
    news, other = (pages[task_page(task.name)] for task in tasks)
    assert "3 clients with 4 to 8 training rows of 2 labels" in news
    for kind in ("svg", "csv"):
        assert f'href="../figures/s.news-clients.{kind}"' in news
    assert pages["figures/s.news-clients.csv"].splitlines() == [
        "client,label,rows",
        *("0,0,3", "0,1,1", "1,0,0", "1,1,8", "2,0,2", "2,1,2"),
    ]
    drawn = pages["figures/s.news-clients.svg"]
    assert drawn.count('fill="#005a9c"') == 6  # a square for each client and label
    assert drawn.rstrip("\n") in news
    assert "clients" not in other
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
