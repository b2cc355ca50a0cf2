"""LAMP with TAG's loss: the variant that the paper finds better on larger batches and under noise.

The algorithm is in `submissions/blocks/gradient_matching/lamp.py`.
"""

from __future__ import annotations

from benchmark.spec import Parameter
from submissions.blocks.gradient_matching.distances import L2L1, Distance, SquaredL2
from submissions.blocks.gradient_matching.lamp import Lamp, lamp_parameters, lamp_variants


class LampL2L1(Lamp):
    """LAMP_{L2+L1} of the paper, LAMP_{L2} with a zero L1 weight, and the other ablations."""

    name = "lamp_l2l1"
    summary = "LAMP: L2 and L1 gradient matching with reordering under a language model."
    paper = (
        "Balunović et al., LAMP: Extracting Text from Gradients with Language Model Priors, 2022"
    )
    parameters = {
        **lamp_parameters(language_weight=60.0, length_weight=25.0),
        "l1_weight": Parameter(0.01, "α_tag, the factor of the L1 term; 0: L2 only.", low=0),
        "squared": Parameter(True, "Square the L2 term, as DLG does; the paper prints a norm."),
    }

    variants = {
        **lamp_variants(
            "lamp_l2l1", quick_language_weight=60.0, brief={"steps": 120, "learning_rate": 0.05}
        ),
        "lamp_l2l1_l2_only": {"l1_weight": 0.0},
    }

    def distance(self) -> Distance:
        """L_tag of section 4.2."""
        l1_weight, squared = self.number("l1_weight"), self.flag("squared")
        return L2L1(l1_weight, squared) if l1_weight or not squared else SquaredL2()
