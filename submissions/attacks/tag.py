"""TAG: DLG with an L1 term, which listens to the many small entries of a gradient, too."""

from __future__ import annotations

from benchmark.spec import Parameter
from submissions.blocks.gradient_matching.attack import MatchingAttack
from submissions.blocks.gradient_matching.distances import L2L1, Distance
from submissions.blocks.gradient_matching.settings import ADAPTED, QUICK, descent_parameters


class TAG(MatchingAttack):
    """L2 plus α times L1 distance of the gradients, Adam from one Gaussian start."""

    name = "tag"
    summary = "Optimizes embeddings until the L2 and L1 distances of the gradients are small."
    paper = "Deng et al., TAG: Gradient Attack on Transformer-based Language Models, 2021"
    parameters = {
        **descent_parameters(steps=2500, learning_rate=0.1),
        "l1_weight": Parameter(0.01, "α, the factor of the L1 term.", low=0),
        "layer_weighting": Parameter(
            "none",
            "Weight of each layer's L1 term: none (as LAMP runs TAG), or linear, falling from "
            "the input to the output (the TAG paper's intent).",
            choices=("none", "linear"),
        ),
        "squared": Parameter(True, "Square the L2 term, as DLG does; the paper prints a norm."),
    }

    variants = {"tag_adapted": ADAPTED, "tag_quick": QUICK, "tag_brief": {**QUICK, "steps": 120}}

    def distance(self) -> Distance:
        """‖∇W' - ∇W‖₂ + α ‖∇W' - ∇W‖₁."""
        return L2L1(self.number("l1_weight"), self.flag("squared"))
