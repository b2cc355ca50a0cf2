"""RLG, Revealing Labels from Gradients: tokens whose rows can be separated from all others.

The row of a label is pushed against the hidden states that predict it, the row of any other token
along them, so a half-space can hold the one and keep out the rest (`separability`).
That needs fewer token types than the hidden states have dimensions. Where input and output
embeddings are one matrix, a token's input part is a direction of its own that separates it just as
well; but the rows no longer sum to zero, so there every row has to be tested, and positions and
tokens share the dimensions.
"""

from __future__ import annotations

import numpy as np

from benchmark.spec import Attack, Observation, Parameter, Recovery, Role
from submissions.blocks.clock import Clock
from submissions.blocks.output_layer.gradient import candidates, output_gradient
from submissions.blocks.output_layer.separability import (
    Rows,
    Verdicts,
    coordinates,
    separable_exactly,
    separable_rows,
)


class RevealLabels(Attack):
    """Dang et al.'s linear programs, most of them spared."""

    name = "rlg"
    summary = "Lists the tokens whose output-layer rows a half-space separates from all others."
    paper = "Dang et al., Revealing and Protecting Labels in Distributed Training, 2021"
    observes = frozenset({Role.OUTPUT})
    objectives = frozenset({"causal-lm", "translation"})
    parameters = {
        "solver": Parameter(
            "fast",
            "fast: few and small problems. exact: one linear program a token, for small cases.",
            choices=("fast", "exact"),
        )
    }
    variants = {"rlg_exact": {"solver": "exact"}}

    def recover(self, observation: Observation) -> Recovery:
        """Find the basis, then the separable rows."""
        gradient = output_gradient(observation)
        if gradient is None:
            return Recovery(token_types=frozenset(), note="The output layer was not shared.")
        if not bool(gradient.isfinite().all()):
            raise ValueError("the output-layer gradient holds NaN or infinite values")
        sizes = gradient.double().norm(dim=1)
        filled = sizes.nonzero().flatten()
        if not len(filled):
            return Recovery(token_types=frozenset(), note="The output-layer gradient is all zero.")
        rows = coordinates(gradient[filled])  # (N, R)
        clock = Clock(observation.seconds_left)
        if self.settings["solver"] == "exact":
            verdicts = _exactly(rows, clock)
        else:
            verdicts = separable_rows(rows, sizes[filled].cpu().numpy(), clock)
        found = filled[verdicts.separable.nonzero()[0]]
        allowed = frozenset(candidates(observation.public, len(gradient)).tolist())
        types = frozenset(found.tolist()) & allowed
        note = _note(rows.shape[1], gradient.shape[1], verdicts)
        return Recovery(token_types=types, note=note, stopped_by_clock=clock.stopped)


def _exactly(rows: Rows, clock: Clock) -> Verdicts:
    found = [
        None if clock.is_up() else separable_exactly(rows, number, clock)
        for number in range(len(rows))
    ]
    separable = np.array([bool(answer) for answer in found])
    return Verdicts(separable, np.array([answer is not None for answer in found]), len(rows))


def _note(rank: int, width: int, verdicts: Verdicts) -> str:
    parts = [f"Rank {rank} of {width}."]
    if rank == width:
        parts.append("The rank is full: with as many token types as dimensions none is separable.")
    open_rows = int((~verdicts.certified).sum())
    if open_rows:
        parts.append(f"{open_rows} rows are without proof.")
    return " ".join(parts)
