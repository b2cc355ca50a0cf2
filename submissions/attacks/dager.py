"""DAGER: exact recovery from the spans of the attention's gradients.

1. The query, key and value gradients of the first layer span the inputs of the first attention;
   every vocabulary entry is checked against that span at every position.
2. Decoders: prefixes are extended token by token, checked against spans behind the attention.
   Encoders: whole sentences are searched among what passed, checked in the same places.

The embedding gradients and the output layer are never looked at, so freezing them changes nothing.
"""

from __future__ import annotations

import time
from dataclasses import replace

from benchmark.spec import Attack, Observation, Parameter, Recovery, Unsupported
from submissions.blocks.dager.anatomy import NoAttention
from submissions.blocks.dager.reader import Reader, Settings

RESERVE = 10.0
"""Seconds before the end of the cell at which a search returns what it has, a tenth at most."""


class Dager(Attack):
    """Reads whole batches exactly while they have fewer tokens than the model is wide."""

    name = "dager"
    summary = "DAGER: exact recovery of sentences from the spans of the attention's gradients."
    paper = "Petrov et al., DAGER: Exact Gradient Inversion for Large Language Models, 2024"
    objectives = frozenset({"causal-lm", "classification"})
    parameters = {
        "limit": Parameter(
            6.0, "Distance from a span that passes, as a multiple of what noise explains.", 1.0, 1e6
        ),
        "rounds": Parameter(
            12, "Rounds of an encoder's search; unlike time, the same on every machine.", 1, 1 << 20
        ),
        "seconds": Parameter(300.0, "Time after which the search of a batch ends.", 0.1, 1e6),
        "beam": Parameter(256, "Prefixes of a decoder that are kept at each step.", 1, 1 << 20),
        "restarts": Parameter(32, "Sentences that an encoder's search improves at once.", 1, 4096),
    }

    def recover(self, observation: Observation) -> Recovery:
        """Spans, then tokens, then sentences; a model without attention is not read at all."""
        values = self.settings
        settings = Settings(
            float(values["limit"]),
            int(values["beam"]),
            int(values["restarts"]),
            int(values["rounds"]),
        )
        try:
            reader = Reader(observation.public, settings)
        except NoAttention as reason:
            raise Unsupported(str(reason)) from reason
        left = observation.seconds_left()
        clock = Clock(min(float(values["seconds"]), left - min(RESERVE, left / 10)))
        found = reader.read(observation, clock)
        return replace(found, note=f"The time was up. {found.note}") if clock.rang else found


class Clock:
    """Tells a search when to end, and afterwards whether it had to."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.rang = False

    def __call__(self) -> bool:
        self.rang = self.rang or time.monotonic() > self.end
        return self.rang
