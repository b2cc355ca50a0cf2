"""DAGER: exact recovery from the spans of the attention's gradients.

1. The query, key and value gradients of the first layer span the inputs of the first attention;
   every vocabulary entry is checked against that span at every position.
2. Decoders: prefixes are extended token by token, checked against spans behind the attention.
   Encoders: whole sentences are searched among what passed, checked in the same places; what is
   found is taken out of the update before the search goes on.

The embedding gradients and the output layer are never looked at, so freezing them changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from benchmark.spec import Attack, Knowledge, Observation, Parameter, Recovery, Unsupported
from submissions.blocks.clock import Clock
from submissions.blocks.dager.anatomy import NoAttention
from submissions.blocks.dager.effort import Effort
from submissions.blocks.dager.published import PublishedReader
from submissions.blocks.dager.reader import Reader, Settings

WORK = 150.0
"""Billions of multiplications of an encoder's search at most: about 20 s of one core.

Tuned on seeds 0 to 9. Batches of eight of `open/rotten-tomatoes` that are read whole take 25 to
121; of sixteen, which have more tokens than the model is wide, ROUGE-1 is 0.212, and with 40 or 80
0.185 or 0.198 (seed 0, 12 batches)."""
DECODER_WORK = 600.0
"""The same of a decoder's, whose products are larger and so faster: half a minute. Batches of
sixteen of `open/wikitext` take less than 300 (seed 3)."""
PUBLISHED = 75.0
"""The same for the published search, which gains little from more."""
BRIEF = 1.0
"""Many times what any single sentence of `mini/cola` takes, and as good as twice as much under
noise, where each takes all; batches of eight would take more. Tried with seed 5."""
SHARE = 0.9
"""Of the time that is left to the cell: the rest is kept for the batches that come after."""


class Dager(Attack):
    """Reads whole batches exactly while they have fewer tokens than the model is wide."""

    name = "dager"
    summary = "DAGER: exact recovery of sentences from the spans of the attention's gradients."
    paper = "Petrov et al., DAGER: Exact Gradient Inversion for Large Language Models, 2024"
    objectives = frozenset({"causal-lm", "classification"})
    parameters = {
        "method": Parameter(
            "improved",
            "published: the paper's thresholds and search, bounded by `work`; improved: ours.",
            choices=("improved", "published"),
            uses=frozenset({Knowledge.NOISE_SCALE}),
            without="published",
        ),
        "lengths": Parameter(
            "found",
            "Lengths of an encoder's sentences: found, as in the paper, where the token after the "
            "last word fits, or told by the task.",
            choices=("found", "told"),
            needs=frozenset({Knowledge.LENGTHS}),
        ),
        "limit": Parameter(
            6.0, "Distance from a span that passes, as a multiple of what noise explains.", 1.0, 1e6
        ),
        "rounds": Parameter(
            24, "Rounds of an encoder's search; unlike time, the same on every machine.", 1, 1 << 20
        ),
        "work": Parameter(
            0.0,
            "Billions of multiplications after which the search of a batch ends; 0: "
            f"{WORK:g} for an encoder, {DECODER_WORK:g} for a decoder.",
            0.0,
            1e6,
        ),
        "beam": Parameter(256, "Prefixes of a decoder that are kept at each step.", 1, 1 << 20),
        "restarts": Parameter(32, "Sentences that an encoder's search improves at once.", 1, 4096),
    }
    variants = {
        "dager_paper": {"method": "published", "work": PUBLISHED},
        "dager_lengths": {"lengths": "told"},
        "dager_brief": {"work": BRIEF},
    }

    def recover(self, observation: Observation) -> Recovery:
        """Spans, then tokens, then sentences; a model without attention is not read at all."""
        values, published = self.settings, self.settings["method"] == "published"
        settings = Settings(
            1.0 if published else float(values["limit"]),
            int(values["beam"]),
            int(values["restarts"]),
            int(values["rounds"]),
        )
        clock = Clock(observation.seconds_left, SHARE)
        try:
            reader = (PublishedReader if published else Reader)(observation.public, settings)
            usual = DECODER_WORK if reader.anatomy.causal else WORK
            effort = Effort(int(1e9 * (float(values["work"]) or usual)), clock)
            return _explained(reader.read(observation, effort), effort)
        except NoAttention as reason:
            raise Unsupported(str(reason)) from reason


def _explained(found: Recovery, effort: Effort) -> Recovery:
    """The answer with what ended its search; one without a note has the whole batch."""
    if not found.note or not (effort.is_spent or effort.clock.stopped):
        return found
    if effort.clock.stopped:
        return replace(found, note=f"The time was up. {found.note}", stopped_by_clock=True)
    return replace(found, note=f"The work was done. {found.note}")
