"""FLAT-CHAT: the row sums of the output layer's gradient, sorted into two Gaussians.

The sum of row t weights the logit gradients of token t by the sums of the hidden states: large
where t is a label of the batch, small where it only received softmax mass. A polynomial fitted on
public text says how many tokens to name. Where input and output embeddings are one matrix, the
row sums contain the input part too; so do those of the public text, and present tokens stand out
all the more. Noise of a known scale is added to the public gradients before the
polynomial is fitted; rows that pruning left empty are neither sorted nor named.
"""

from __future__ import annotations

import math

from torch import Tensor

from benchmark.spec import Attack, Knowledge, Observation, Parameter, Public, Recovery, Role
from submissions.blocks.output_layer.gradient import candidates, output_gradient, row_sums
from submissions.blocks.output_layer.mixture import Mixture, fit_mixture
from submissions.blocks.output_layer.sizes import PublicBatches, SizeRegressor, public_batches

STEP = 2.0
"""Ratio of two noise levels that are worth a regressor each."""
LEAST = 1e-2
"""Least share, squared, of what can be told from noise."""


class FlatChat(Attack):
    """Algorithm 1 of the paper; its ablations are variants."""

    name = "flat_chat"
    summary = "Sorts the row sums of the output-layer gradient into two Gaussians."
    paper = "FLAT-CHAT, a word recovery attack on federated language model training"
    observes = frozenset({Role.OUTPUT})
    needs = frozenset({Knowledge.PUBLIC_TEXT})
    objectives = frozenset({"causal-lm", "translation"})
    parameters = {
        "ranking": Parameter(
            "gmm", "gmm: by equation 11. abs: by the size of the row sum.", choices=("gmm", "abs")
        ),
        "size": Parameter(
            "predicted",
            "How many tokens are named: predicted from public text, or given (oracle).",
            choices=("predicted", "oracle"),
            needs=frozenset({Knowledge.TYPE_COUNT}),
        ),
        "degree": Parameter(
            3, "Degree of the size regressor; the paper's tables use 1.", low=1, high=6
        ),
        "errors": Parameter(
            "relative",
            "What the regressor keeps small: errors relative to the number of types, or, as least "
            "squares are usually meant, absolute ones.",
            choices=("relative", "absolute"),
        ),
        "noise": Parameter(
            "added",
            "added: noise of the known scale is added to public gradients before fitting; ignored.",
            choices=("added", "ignored"),
            uses=frozenset({Knowledge.NOISE_SCALE}),
            without="ignored",
        ),
        "batches": Parameter(10, "Public batches of each shape; 20 in the paper.", low=1),
        "pool": Parameter(64, "Public samples of each length that batches are made of.", low=1),
        "tries": Parameter(10, "Fits of a mixture at most.", low=1),
    }
    variants = {
        "flat_chat_abs": {"ranking": "abs"},
        "flat_chat_oracle": {"size": "oracle"},
        "flat_chat_abs_oracle": {"ranking": "abs", "size": "oracle"},
        "flat_chat_linear": {"degree": 1},
        "flat_chat_brief": {"batches": 3, "tries": 3},
        "flat_chat_paper": {"degree": 1, "errors": "absolute", "noise": "ignored", "batches": 20},
    }

    def prepare(self, public: Public) -> None:
        """Flatten gradients of public text, and fit the number of types on them."""
        self.batches: PublicBatches | None = None
        self.regressors: dict[float, SizeRegressor] = {}
        if self.settings["size"] == "predicted":
            batches, pool = int(self.settings["batches"]), int(self.settings["pool"])
            self.batches = public_batches(public, batches, pool)
            self._regressor(0.0)

    def recover(self, observation: Observation) -> Recovery:
        """Flatten, sort into two, name the highest ranks."""
        gradient = output_gradient(observation)
        if gradient is None:
            return Recovery(token_types=frozenset(), note="The output layer was not shared.")
        kept = candidates(observation.public, len(gradient))
        sums = row_sums(gradient)  # (V,)
        kept = kept[sums[kept] != 0]
        if len(kept) < 2:
            return Recovery(
                token_types=frozenset(kept.tolist()),
                note=f"{len(kept)} rows of the output-layer gradient hold anything.",
            )
        sums = sums[kept]  # (C,)
        mixture = fit_mixture(sums, observation.seed, int(self.settings["tries"]))
        count = self._count(observation, mixture, sums, gradient)
        found = kept[self._ranks(sums, mixture).topk(count).indices]
        return Recovery(token_types=frozenset(found.tolist()), note=_note(mixture))

    def _count(
        self, observation: Observation, mixture: Mixture, sums: Tensor, gradient: Tensor
    ) -> int:
        """How many of the rows are named, at most all."""
        if self.batches is None:
            assert observation.type_count is not None  # granted, since it is needed
            return min(observation.type_count, len(sums))
        share = len(sums) / self.batches.sums.shape[1]  # of the vocabulary has rows
        regressor = self._regressor(_noise_ratio(gradient, observation.update.noise_scale))
        return regressor.predict(mixture.weight * share, len(sums))

    def _regressor(self, noise: float) -> SizeRegressor:
        """Fitted for this level of noise, or one that is nearly the same."""
        assert self.batches is not None
        level = STEP ** round(math.log(noise, STEP)) if noise else 0.0
        if level not in self.regressors:
            degree, tries = int(self.settings["degree"]), int(self.settings["tries"])
            relative = self.settings["errors"] == "relative"
            self.regressors[level] = self.batches.fit(degree, tries, level, relative)
        return self.regressors[level]

    def _ranks(self, sums: Tensor, mixture: Mixture) -> Tensor:
        return mixture.rank(sums) if self.settings["ranking"] == "gmm" else sums.abs()


def _noise_ratio(gradient: Tensor, noise_scale: float | None) -> float:
    """Length of the noise in the row sums, as a multiple of the length of what it hides."""
    if not noise_scale:
        return 0.0
    noise = len(gradient) * gradient.shape[1] * noise_scale**2
    total = float(gradient.sum(dim=1).square().sum())
    return math.sqrt(noise / max(total - noise, LEAST * noise))


def _note(mixture: Mixture) -> str:
    if mixture.settled:
        return ""
    return (
        f"In {mixture.fits} fits the rarer component was never the wider one; "
        "the wider one is taken for the tokens of the batch."
    )
