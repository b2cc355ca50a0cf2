"""Deep Leakage from Gradients: move random embeddings until their gradient is the observed one."""

from __future__ import annotations

from submissions.blocks.gradient_matching.attack import MatchingAttack
from submissions.blocks.gradient_matching.distances import Distance, SquaredL2
from submissions.blocks.gradient_matching.settings import ADAPTED, QUICK, descent_parameters


class DLG(MatchingAttack):
    """Squared L2 distance of the gradients, Adam from one Gaussian start."""

    name = "dlg"
    summary = "Optimizes embeddings until the squared distance of the gradients is small."
    paper = "Zhu et al., Deep Leakage from Gradients, 2019"
    parameters = descent_parameters(steps=2500, learning_rate=0.1)

    variants = {"dlg_adapted": ADAPTED, "dlg_quick": QUICK, "dlg_brief": {**QUICK, "steps": 120}}

    def distance(self) -> Distance:
        """‖∇W' - ∇W‖²."""
        return SquaredL2()
