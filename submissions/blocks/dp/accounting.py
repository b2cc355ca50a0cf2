"""The privacy that noise buys, by Opacus's accountant (Rényi differential privacy)."""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import cast


@cache
def epsilon(noise_multiplier: float, sampling_rate: float, steps: int, delta: float) -> float:
    """ε that so many noisy steps spend at this δ; infinite without noise."""
    from opacus.accountants import RDPAccountant

    if noise_multiplier == 0.0:
        return math.inf
    accountant = RDPAccountant()
    accountant.history = [(noise_multiplier, sampling_rate, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that more orders could be tried: ε is huge anyway
        return float(accountant.get_epsilon(delta=delta))


@cache
def noise_multiplier(target: float, sampling_rate: float, steps: int, delta: float) -> float:
    """The least noise that keeps so many steps within ε = `target`."""
    from opacus.accountants.utils import get_noise_multiplier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cast(
            float,
            get_noise_multiplier(
                target_epsilon=target,
                target_delta=delta,
                sample_rate=sampling_rate,
                steps=steps,
                accountant="rdp",
                epsilon_tolerance=1e-3 * target,
            ),
        )
