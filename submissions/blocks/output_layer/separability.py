"""Which rows can be separated from all others: RLG's linear programs, and a way round most of them.

Row i is separable if some x has q_i·x < 0 and q_j·x ≥ 0 for every other row j; if there is none,
then q_i is a nonnegative combination of other rows (Farkas), so each answer comes with a proof.
The rows of an output gradient sum to zero and span the space that they live in, hence their cone is
the whole space. A few rows whose cone is the whole space already make every row outside of them a
combination of theirs: none of those can be a label, and only the few have to be tested. A test is a
projection onto the cone of all other rows: what is left beyond it separates, or nothing is left.
Where no few rows span everything, as with tied embeddings, every row has to be tested; but a row in
the cone of rows that earlier tests have used is decided by those alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from submissions.blocks.clock import Clock

Rows = NDArray[Any]

CLEAR = 1e-3
"""How far below zero a separated row lies at least; with |x| ≤ 1 labels reach -0.5 to -5."""
ZERO = 1e-6
"""What counts as zero: ten times the tolerance of the solver."""
ENDLESS = Clock(lambda: float("inf"))
"""For whoever has all the time there is."""
_ENTERING = 12
"""Rows that enter an active set at once, at first."""
_NOTHING = 1e-18
"""Squared length of what is left of a row that is a combination of others."""
_CALLS = 500_000
"""Multiplications that the calls of a step are worth where there is little to multiply."""
_LEAST = 1e-12
"""A weight below this is zero."""
STEPS = 50
"""Simplex steps for each dimension after which a program has lost its way, and its row stays
without proof. On seeds 0 to 9 of the mini tasks and on random rows (up to 16,594 of them, up to 256
dimensions) none took more than 10."""


@dataclass(frozen=True)
class Verdicts:
    """What is known of each row."""

    separable: Rows
    """(V,) booleans."""
    certified: Rows
    """(V,) booleans: a separating direction or a nonnegative combination was found and checked."""
    programs: int
    """Small problems that were solved."""


def coordinates(gradient: Tensor) -> Rows:
    """Rows of unit length (V, R) in the basis of the R leading singular directions.

    Separability is blind to the length of a row, and to a change of basis. Rows of equal length
    bring out the numerical rank, since rounding is relative to a row: singular values fall by
    orders of magnitude, to below the precision, where the hidden states are used up.
    """
    rows = gradient.double()
    rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-300)
    values, directions = torch.linalg.eigh(rows.T @ rows)
    noise = max(torch.finfo(gradient.dtype).eps ** 2, 10 * torch.finfo(torch.double).eps)
    kept = values > noise * values[-1]
    rows = rows @ (directions[:, kept] / values[kept].sqrt())
    rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-300)
    found: Rows = rows.cpu().numpy()
    return found


# ------------------------------------------------------------------------------- one row, exactly


@dataclass(frozen=True)
class Separation:
    """Of one program: the best direction, the weights of the rows in the proof to the contrary."""

    value: float
    direction: Rows | None
    weights: Rows


def separate(row: Rows, others: Rows, clock: Clock = ENDLESS) -> Separation:
    """Minimize row·x over the x in the unit box with others·x ≥ 0: below zero means separable."""
    from scipy.optimize import linprog

    found = linprog(
        row, A_ub=-others, b_ub=np.zeros(len(others)), bounds=(-1, 1), method="highs-ds",
        options={"maxiter": STEPS * len(row), "time_limit": max(clock.left(), 0.01)},
    )  # fmt: skip
    if found.status != 0:
        clock.is_up()  # a program that lost its way has not cut the search, the clock has
        return Separation(np.nan, None, np.zeros(len(others)))
    return Separation(float(found.fun), found.x, -found.ineqlin.marginals)


def separable_exactly(rows: Rows, number: int, clock: Clock = ENDLESS) -> bool | None:
    """The reference: one program with every other row as a constraint; None if it finds no end."""
    answer = separate(rows[number], np.delete(rows, number, axis=0), clock)
    return None if answer.direction is None else answer.value < -CLEAR


@dataclass
class Work:
    """Multiplications so far, and how many there may be."""

    most: float = 100e9
    """About 15 s of one core."""
    spent: float = 0.0

    @property
    def is_done(self) -> bool:
        """Nothing more may be tried."""
        return self.spent >= self.most


@dataclass(frozen=True)
class Projected:
    """A row, without its part in a cone."""

    rest: Rows  # (R,)
    used: Rows
    """Numbers of the rows whose nonnegative combination is the nearest point of the cone."""

    @property
    def least(self) -> float:
        """Minus this is what the linear program reaches at least: along the rest itself."""
        return float(self.rest @ self.rest) / max(float(np.abs(self.rest).max()), 1e-300)

    @property
    def most(self) -> float:
        """Minus this is the best it can reach: its dual is the distance in the sum of entries."""
        return float(np.abs(self.rest).sum())


def beyond_cone(row: Rows, rows: Rows, number: int | None, work: Work) -> Projected:
    """What is left of a row beyond the nearest point of the cone of rows, but for one of them.

    Nonnegative least squares by an active set: rows on the far side of what is left enter, several
    at a time while that gets on, and rows whose weight would turn negative leave. At the end no row
    is on the far side, so that minus the rest separates; or too little is left of the row for any
    direction to be clear.
    """
    rest: Rows = row
    used, weights = np.zeros(0, dtype=int), np.zeros(0)
    entering, left = _ENTERING, float(row @ row)
    while left > _NOTHING and np.abs(rest).sum() > CLEAR and not work.is_done:
        gains = rows @ rest  # (V,)
        gains[used] = -np.inf
        if number is not None:
            gains[number] = -np.inf
        most = min(entering, len(rows))
        best = np.argpartition(-gains, most - 1)[:most]
        best = best[gains[best] > ZERO * left**0.5 * 1e-3]
        if not len(best):
            break
        work.spent += rows.size
        used, weights = _feasible(
            rows, row, np.concatenate([used, best]), np.append(weights, np.zeros(len(best))), work
        )
        rest = row - weights @ rows[used]
        before, left = left, float(rest @ rest)
        if left > before * (1 - 1e-9):  # no way to get on
            if entering == 1:
                break
            entering = 1
    return Projected(rest, used)


def _feasible(rows: Rows, row: Rows, used: Rows, weights: Rows, work: Work) -> tuple[Rows, Rows]:
    """Go to the least squares over the used rows; those that reach weight zero first leave."""
    while True:
        basis = rows[used]
        work.spent += _CALLS + len(used) ** 2 * (len(row) + len(used))
        wanted = np.linalg.lstsq(basis.T, row)[0] if len(used) > len(row) else _solved(basis, row)
        negative = wanted <= 0
        if not negative.any():
            return used, wanted
        way = weights[negative] - wanted[negative]
        steps = np.divide(weights[negative], way, out=np.zeros_like(way), where=way > 0)
        weights = weights + steps.min() * (wanted - weights)
        kept = ~negative | (weights > _LEAST)
        kept[negative] &= steps > steps.min()
        used, weights = used[kept], weights[kept]


def _solved(basis: Rows, row: Rows) -> Rows:
    """Least squares through the normal equations, which are many times as fast."""
    try:
        return np.linalg.solve(basis @ basis.T, basis @ row)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(basis.T, row)[0]


# ---------------------------------------------------------------------------------------- all rows


def separable_rows(
    rows: Rows, sizes: Rows, clock: Clock = ENDLESS, work: Work | None = None
) -> Verdicts:
    """Test all rows (V, R); `sizes` (V,) says which ones are likely labels: the largest.

    Rows that are left when the work is done stay without proof.
    """
    search = _Search(rows, clock, work or Work())
    order = np.argsort(-sizes, kind="stable")
    pool, spans = search.spanning(order)
    suspects = pool if spans else order
    search.certified[:] = spans
    search.certified[suspects] = False
    likely = True  # after a row that is separable, another one is
    for number in suspects:
        if search.work.is_done or clock.is_up():
            break
        if spans or likely or not search.is_inside(int(number)):
            search.test(int(number))
        likely = bool(search.separable[number])
    return Verdicts(search.separable, search.certified, search.programs)


class _Search:
    """The rows, what is known of them, and the programs solved so far."""

    def __init__(self, rows: Rows, clock: Clock, work: Work) -> None:
        self.rows, self.clock, self.work = rows, clock, work
        self.separable = np.zeros(len(rows), dtype=bool)
        self.certified = np.zeros(len(rows), dtype=bool)
        self.frame = np.zeros(len(rows), dtype=bool)
        """Rows that others were combinations of, or that are separable."""
        self.programs = 0

    def spanning(self, order: Rows) -> tuple[Rows, bool]:
        """A few rows and whether their cone is the whole space.

        It is unless some x ≠ 0 has e·x ≥ 0 for each row e; rows with a negative product are then
        what is missing. No such x: positive weights make the rows sum to zero, which is checked.
        """
        rank = self.rows.shape[1]
        pool = order[: rank + 1]  # fewer cannot
        while True:
            few = self.rows[pool]
            answer = self._solve(-few.sum(axis=0), few)
            if answer.direction is None:
                return pool, False
            if answer.value > -ZERO:
                weights = 1 + answer.weights
                sums_to_zero = np.abs(weights @ few).max() <= ZERO * weights.max()
                return pool, bool(sums_to_zero and np.linalg.matrix_rank(few) == rank)
            worst = self._violated(answer.direction, rank // 4 + 1)
            worst = np.setdiff1d(worst, pool)
            if not len(worst):
                return pool, False
            pool = np.concatenate([pool, worst])

    def is_inside(self, number: int) -> bool:
        """Whether rows of earlier tests are proof enough that this one is not separable."""
        frame = np.flatnonzero(self.frame)
        frame = frame[frame != number]
        if not len(frame):
            return False
        projected = beyond_cone(self.rows[number], self.rows[frame], None, self.work)
        self.certified[number] = projected.most <= CLEAR
        return bool(self.certified[number])

    def test(self, number: int) -> None:
        """Decide one row by what lies beyond the cone of all others, which is proof either way.

        What that does not tell is left to the linear program.
        """
        self.programs += 1
        projected = beyond_cone(self.rows[number], self.rows, number, self.work)
        if self.work.is_done:
            return
        self.frame[projected.used] = True
        if projected.most <= CLEAR:
            self.certified[number] = True
        elif projected.least > CLEAR and self._is_proof(number, projected.rest):
            self.separable[number] = self.certified[number] = True
        else:
            self._decide(number, projected)
        self.frame[number] |= self.separable[number]

    def _decide(self, number: int, projected: Projected) -> None:
        """By the linear program, with no more constraints than it takes.

        With fewer constraints it reaches further: where that is not far enough, no more are needed.
        """
        row, rank = self.rows[number], self.rows.shape[1]
        near = self._violated(-projected.rest / np.abs(projected.rest).max(), rank, margin=CLEAR)
        pool = np.union1d(projected.used, near)
        while not self.work.is_done:
            pool = pool[pool != number]
            answer = self._solve(row, self.rows[pool])
            if answer.direction is None:
                return
            worst = self._violated(answer.direction, rank // 4 + 1)
            worst = np.setdiff1d(worst, [number, *pool])
            if answer.value >= -CLEAR or not len(worst):
                self.separable[number] = answer.value < -CLEAR
                self.certified[number] = True
                return
            pool = np.concatenate([pool, worst])

    def _is_proof(self, number: int, rest: Rows) -> bool:
        """Whether the row is clearly on one side of the rest and all others are on the other."""
        products = self.rows @ (-rest / np.abs(rest).max())
        own, products[number] = products[number], 0.0
        return bool(own < -CLEAR and products.min() >= -ZERO)

    def _solve(self, row: Rows, others: Rows) -> Separation:
        self.programs += 1
        self.work.spent += 20 * _CALLS + 2 * others.size * others.shape[1]  # two steps a dimension
        return separate(row, others, self.clock)

    def _violated(self, direction: Rows, most: int, margin: float = -ZERO) -> Rows:
        """Rows on the wrong side of a direction, or within a margin of it, the worst first."""
        products = self.rows @ direction  # (V,)
        wrong = np.flatnonzero(products < margin)
        worst: Rows = wrong[np.argsort(products[wrong])][:most]
        return worst
