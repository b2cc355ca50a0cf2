"""LAMP with the cosine loss: continuous steps, reordering, and a language model to judge order.

The algorithm is in `submissions/blocks/gradient_matching/lamp.py`.
"""

from __future__ import annotations

from submissions.blocks.gradient_matching.distances import Cosine, Distance
from submissions.blocks.gradient_matching.lamp import Lamp, lamp_parameters, lamp_variants


class LampCos(Lamp):
    """LAMP_Cos of the paper, and its ablations as parameters."""

    name = "lamp_cos"
    summary = "LAMP: cosine gradient matching with reordering under a language model."
    paper = (
        "Balunović et al., LAMP: Extracting Text from Gradients with Language Model Priors, 2022"
    )
    parameters = lamp_parameters(language_weight=0.2, length_weight=1.0)
    variants = lamp_variants(
        "lamp_cos", quick_language_weight=0.05, brief={"steps": 80, "learning_rate": 0.1}
    )

    def distance(self) -> Distance:
        """L_cos of section 4.2."""
        return Cosine()
