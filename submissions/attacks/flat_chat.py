"""FLAT-CHAT: the row sums of the output layer's gradient, sorted into two Gaussians.

The sum of row t weights the logit gradients of token t by the sums of the hidden states: large
where t is a label of the batch, small where it only received softmax mass. A polynomial fitted on
public text says how many tokens to name. Where input and output embeddings are one matrix, the
row sums contain the input part too; so do those of the public text, and present tokens stand out
all the more. Rows that pruning left empty are neither sorted nor named.
"""

from __future__ import annotations

from torch import Tensor

from benchmark.spec import Attack, Knowledge, Observation, Parameter, Public, Recovery, Role
from submissions.blocks.output_layer.gradient import candidates, output_gradient, row_sums
from submissions.blocks.output_layer.mixture import Mixture, fit_mixture
from submissions.blocks.output_layer.sizes import SizeRegressor, public_batches


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
        "flat_chat_paper": {"degree": 1, "errors": "absolute", "batches": 20},
    }

    def prepare(self, public: Public) -> None:
        """Flatten gradients of public text, and fit the number of types on them."""
        self.regressor: SizeRegressor | None = None
        values = self.settings
        if values["size"] == "predicted":
            batches = public_batches(public, int(values["batches"]), int(values["pool"]))
            relative = values["errors"] == "relative"
            self.regressor = batches.fit(int(values["degree"]), int(values["tries"]), relative)
            self.vocabulary = batches.sums.shape[1]

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
        count = self._count(observation, mixture, len(sums))
        found = kept[self._ranks(sums, mixture).topk(count).indices]
        return Recovery(token_types=frozenset(found.tolist()), note=_note(mixture))

    def _count(self, observation: Observation, mixture: Mixture, rows: int) -> int:
        """How many of the rows are named, at most all."""
        if self.regressor is None:
            assert observation.type_count is not None  # granted, since it is needed
            return min(observation.type_count, rows)
        return self.regressor.predict(mixture.weight * rows / self.vocabulary, rows)

    def _ranks(self, sums: Tensor, mixture: Mixture) -> Tensor:
        return mixture.rank(sums) if self.settings["ranking"] == "gmm" else sums.abs()


def _note(mixture: Mixture) -> str:
    if mixture.settled:
        return ""
    return (
        f"In {mixture.fits} fits the rarer component was never the wider one; "
        "the wider one is taken for the tokens of the batch."
    )
