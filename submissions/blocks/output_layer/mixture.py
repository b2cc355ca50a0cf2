"""Two Gaussians for the row sums: the tokens of the batch, and the many others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

WIDER = 2.0
"""Times that the positive component is as wide at least; the paper says "significantly" (guess)."""

START = "random_from_data"
"""Both components differ in width, hardly in place, which starts from k-means miss."""


@dataclass(frozen=True)
class Mixture:
    """Weight, mean and deviation of the positive (p) and the negative (n) component."""

    weight: float
    """φ_p, the share of the positive component."""
    positive: tuple[float, float]
    negative: tuple[float, float]
    fits: int
    """How often the mixture was fitted."""
    settled: bool
    """Whether the positive component came out as the wider one."""

    def rank(self, sums: Tensor) -> Tensor:
        """r_t of equation 11, (V,): how much better the positive component explains a token."""
        distances = [((sums - mean) / deviation) ** 2 for mean, deviation in self._both]
        return distances[1] - distances[0]

    @property
    def _both(self) -> tuple[tuple[float, float], tuple[float, float]]:
        return self.positive, self.negative


def fit_mixture(sums: Tensor, seed: int, tries: int) -> Mixture:
    """Fit until the rarer component is the wider one (remark 1), each time from another start.

    Where that never happens, the wider component of the last fit is called positive.
    """
    from sklearn.mixture import GaussianMixture

    values = sums.double().cpu().numpy()[:, None]  # (V, 1)
    for attempt in range(1, tries + 1):
        start = np.random.RandomState((seed + attempt) % 2**32)
        found = GaussianMixture(2, init_params=START, random_state=start).fit(values)
        deviations = np.sqrt(found.covariances_.ravel())
        rare, wide = int(found.weights_.argmin()), int(deviations.argmax())
        settled = bool(rare == wide and deviations[rare] > WIDER * deviations[1 - rare])
        if settled:
            break
    parts = [(float(m), float(d)) for m, d in zip(found.means_.ravel(), deviations, strict=True)]
    weight = float(found.weights_[wide])
    return Mixture(weight, parts[wide], parts[1 - wide], attempt, settled)
