"""How rows are spread over clients: everything once, the same every time, both splits alike."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark.errors import UserError
from tasks.partitions import FEWEST_ROWS, partition

LABELS = [number % 4 for number in range(4000)]
TEST_LABELS = [number % 4 for number in range(2000)]


def test_every_row_has_one_client_and_the_same_one_each_time() -> None:
    found = partition(LABELS, TEST_LABELS, 100, 1.0, "seed")
    for shares, labels in ((found.train, LABELS), (found.test, TEST_LABELS)):
        assert sorted(row for share in shares for row in share) == list(range(len(labels)))
    assert found == partition(LABELS, TEST_LABELS, 100, 1.0, "seed")
    assert found != partition(LABELS, TEST_LABELS, 100, 1.0, "another seed")
    assert min(map(len, found.train)) >= FEWEST_ROWS


def mix(rows: tuple[int, ...], labels: list[int]) -> np.ndarray:
    return np.bincount([labels[row] for row in rows], minlength=4) / len(rows)


def test_a_client_is_tested_on_the_mix_of_labels_that_it_trains_on() -> None:
    found = partition(LABELS, TEST_LABELS, 20, 1.0, "seed")
    for own, tested in zip(found.train, found.test, strict=True):
        assert np.abs(mix(own, LABELS) - mix(tested, TEST_LABELS)).max() < 0.05


def test_a_smaller_alpha_makes_clients_differ_more() -> None:
    def unevenness(alpha: float) -> float:
        shares = partition(LABELS, TEST_LABELS, 20, alpha, "seed").train
        return float(np.mean([mix(share, LABELS).max() for share in shares]))

    assert unevenness(0.3) > unevenness(1.0) > unevenness(100.0)


def test_too_few_rows_are_one_sentence() -> None:
    with pytest.raises(UserError, match="50 rows cannot be spread over 40 clients"):
        partition([0] * 50, [0] * 10, 40, 1.0, "seed")
