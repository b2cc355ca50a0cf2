"""FLAT-CHAT: the row sums of the output layer's gradient, sorted into two Gaussians.

The sum of row t weights the logit gradients of token t by the sums of the hidden states: large
where t is a label of the batch, small where it only received softmax mass. A polynomial fitted on
public text says how many tokens to name. Where input and output embeddings are one matrix, the
row sums contain the input part too; so do those of the public text, and present tokens stand out
all the more.
"""

from __future__ import annotations

from torch import Tensor

from benchmark.spec import Attack, Knowledge, Observation, Parameter, Public, Recovery, Role
from submissions.blocks.labels.gradient import candidates, output_gradient, row_sums
from submissions.blocks.labels.mixture import Mixture, fit_mixture
from submissions.blocks.labels.sizes import SizeRegressor, fit_regressor


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
        "batches": Parameter(10, "Public batches of each shape; 20 in the paper.", low=1),
        "pool": Parameter(64, "Public samples of each length that batches are made of.", low=1),
        "tries": Parameter(10, "Fits of a mixture at most.", low=1),
    }
    variants = {
        "flat_chat_abs": {"ranking": "abs"},
        "flat_chat_oracle": {"size": "oracle"},
        "flat_chat_abs_oracle": {"ranking": "abs", "size": "oracle"},
        "flat_chat_linear": {"degree": 1},
    }

    def prepare(self, public: Public) -> None:
        """Fit the number of types on gradients of public text."""
        self.regressor: SizeRegressor | None = None
        if self.settings["size"] == "predicted":
            degree, batches, pool, tries = (
                int(self.settings[name]) for name in ("degree", "batches", "pool", "tries")
            )
            self.regressor = fit_regressor(public, degree, batches, pool, tries)

    def recover(self, observation: Observation) -> Recovery:
        """Flatten, sort into two, name the highest ranks."""
        gradient = output_gradient(observation)
        if gradient is None:
            return Recovery(token_types=frozenset(), note="The output layer was not shared.")
        kept = candidates(observation.public, len(gradient))
        sums = row_sums(gradient)[kept]  # (C,)
        if not bool(sums.any()):
            return Recovery(
                token_types=frozenset(), note="Every row of the output-layer gradient sums to zero."
            )
        mixture = fit_mixture(sums, observation.seed, int(self.settings["tries"]))
        count = self._count(observation, mixture, len(sums))
        ranks = self._ranks(sums, mixture)
        found = kept[ranks.topk(count).indices]
        return Recovery(token_types=frozenset(found.tolist()), note=_note(mixture))

    def _count(self, observation: Observation, mixture: Mixture, most: int) -> int:
        if self.regressor is not None:
            return self.regressor.predict(mixture.weight, most)
        assert observation.type_count is not None  # granted, since it is needed
        return observation.type_count

    def _ranks(self, sums: Tensor, mixture: Mixture) -> Tensor:
        return mixture.rank(sums) if self.settings["ranking"] == "gmm" else sums.abs()


def _note(mixture: Mixture) -> str:
    if mixture.settled:
        return ""
    return (
        f"In {mixture.fits} fits the rarer component was never the wider one; "
        "the wider one is taken for the tokens of the batch."
    )
