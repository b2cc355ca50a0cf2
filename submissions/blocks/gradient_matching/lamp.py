"""LAMP, Algorithm 1, whatever the reconstruction loss."""

from __future__ import annotations

from collections.abc import Mapping

from benchmark.spec import Knowledge, Observation, Parameter
from submissions.blocks.gradient_matching.attack import MatchingAttack
from submissions.blocks.gradient_matching.rearrange import Fluency, rearrange
from submissions.blocks.gradient_matching.search import Search
from submissions.blocks.gradient_matching.settings import (
    ADAPTED,
    QUICK,
    Settings,
    descent_parameters,
)
from submissions.blocks.gradient_matching.start import start_from_best


def lamp_parameters(language_weight: float, length_weight: float) -> Mapping[str, Parameter]:
    """The paper's settings; the ablations of its Table 4 are values of these."""
    return {
        **descent_parameters(steps=2000, learning_rate=0.01, decay=0.89),
        "language_weight": Parameter(
            language_weight,
            "α_lm, on the prior's negative log-likelihood; 0: no prior.",
            low=0,
            uses=frozenset({Knowledge.PRIOR}),
            without=0.0,
        ),
        "length_weight": Parameter(
            length_weight, "α_reg, on the embedding length regularizer; 0: none.", low=0
        ),
        "initial_candidates": Parameter(500, "Gaussian starts to choose from.", low=1),
        "initial_permutations": Parameter(500, "Orders of the best start to choose from.", low=0),
        "initial_norm": Parameter(
            0.0, "Length of initial embeddings; 0: the mean of the model's table.", low=0
        ),
        "discrete": Parameter(
            "alternating",
            "Discrete phases between the continuous steps, at the end only, or none.",
            choices=("alternating", "end", "none"),
        ),
        "discrete_start": Parameter(
            0.1, "Share of the steps before the first discrete phase.", low=0, high=1
        ),
        "discrete_every": Parameter(75, "Steps from one discrete phase to the next.", low=1),
        "discrete_candidates": Parameter(200, "Orders tried of a sentence in a phase.", low=1),
    }


def lamp_variants(
    name: str, quick_language_weight: float, brief: Settings
) -> Mapping[str, Settings]:
    """The ablations of the paper, and all of it at a fifth of the steps for small models.

    Small models are matched almost exactly in fewer and larger steps. Where the gradient knows
    more, the language model may count for less; its weight was tuned on sentences of another seed
    than the leaderboard's. Briefer still is what every defense is attacked with: `brief` are the
    steps and the rate that suit the loss.
    """
    quick: Settings = {
        **QUICK,
        "learning_rate": 0.05,
        "initial_candidates": 30,
        "initial_permutations": 30,
        "discrete_start": 0.3,
        "discrete_every": 50,
        "discrete_candidates": 50,
        "language_weight": quick_language_weight,
    }
    briefest: Settings = {
        **quick,
        **brief,
        "initial_candidates": 15,
        "initial_permutations": 15,
        "discrete_every": 20,
        "discrete_candidates": 25,
    }
    ablations: Mapping[str, Settings] = {
        "no_lm": {"language_weight": 0.0},
        "no_regularizer": {"length_weight": 0.0},
        "discrete_at_end": {"discrete": "end"},
        "no_discrete": {"discrete": "none"},
    }
    return {
        f"{name}_adapted": ADAPTED,
        f"{name}_quick": quick,
        f"{name}_brief": briefest,
        **{f"{name}_{word}": change for word, change in ablations.items()},
        **{f"{name}_quick_{word}": {**quick, **change} for word, change in ablations.items()},
    }


class Lamp(MatchingAttack):
    """Alternates continuous steps on embeddings with a search over the order of tokens."""

    def length_weight(self) -> float:
        """α_reg."""
        return self.number("length_weight")

    def search(self, search: Search) -> None:
        """Algorithm 1, with the two-step initialization of section 5.

        With `answer=best`, the answer is the point of smallest L_rec since the last discrete phase:
        line 20 without the wobble of the last step. Earlier points lack the order that the phase
        has found.
        """
        prior = search.problems[0].observation.public.prior
        fluency = Fluency(prior, self.number("language_weight"))
        candidates, discrete = self.whole("discrete_candidates"), self.word("discrete")
        start_from_best(
            search,
            self.whole("initial_candidates"),
            self.whole("initial_permutations"),
            self.number("initial_norm"),
        )  # lines 1 and 2
        for step in search.steps():
            search.descend(step)  # line 5
            if discrete == "alternating" and step in self.phases:
                rearrange(search, candidates, fluency)  # lines 7 to 18
        if discrete == "end" and not search.stopped_at:
            for _ in self.phases:
                rearrange(search, candidates, fluency)

    @property
    def phases(self) -> range:
        """Steps after which a discrete phase follows."""
        steps = self.whole("steps")
        return range(
            int(self.number("discrete_start") * steps), steps, self.whole("discrete_every")
        )

    def remark(self, observation: Observation) -> str:
        """Says when the language model is missing."""
        wanted = self.number("language_weight") > 0 and self.word("discrete") != "none"
        missing = wanted and observation.public.prior is None
        return "Ran without a language model, since the task grants none." if missing else ""
