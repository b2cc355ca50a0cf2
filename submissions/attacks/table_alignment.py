"""Reads a client whose word vectors are private, by published vectors like those it started from.

A method that keeps the embedding layer to itself sends the gradient of the layer above. The rows of
that gradient span the vectors which the layer has read, word for word. Whoever has published
vectors, and the client started from those, can ask of each whether it lies in the span: training
has moved it a little, but other words are nowhere near.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmark.spec import Attack, Knowledge, Observation, Parameter, Recovery, Unsupported
from submissions.blocks.alignment.ordering import ordered_by_prior
from submissions.blocks.alignment.reading import FirstReading, first_reading, positions_matter
from submissions.blocks.sentences import sentence_lengths, special_tokens


class TableAlignment(Attack):
    """FedeVocab claims that nobody can decode without the client's table; this needs another."""

    name = "table_alignment"
    summary = "Finds the published word vectors that lie in the span of the first layer's gradient."
    needs = frozenset({Knowledge.PUBLIC_TABLE})
    uses = frozenset({Knowledge.LENGTHS, Knowledge.PRIOR})
    objectives = frozenset({"classification"})
    parameters = {
        "beams": Parameter(8, "partial sentences while the prior puts words in order", 1),
        "tolerance": Parameter(1e-4, "singular values below this share count as zero", 0.0, 1.0),
        "farthest": Parameter(
            0.5, "relative distance to the span beyond which no word is taken (a guess)", 0.0, 1.0
        ),
    }

    def recover(self, observation: Observation) -> Recovery:
        """Words by place where the layer sees places, else a bag of words in a likely order."""
        public = observation.public
        if public.table is None:
            raise Unsupported("there is no published table to read by")
        lengths = sentence_lengths(observation)
        reading = first_reading(observation, max(lengths), float(self.settings["tolerance"]))
        if reading is None:
            raise Unsupported("no shared layer reads word vectors without filling its width")
        if positions_matter(reading):
            return self._by_place(observation, reading, lengths)
        return self._by_order(observation, reading, lengths)

    def _by_place(
        self, observation: Observation, reading: FirstReading, lengths: tuple[int, ...]
    ) -> Recovery:
        """For every place of a sentence the nearest word; a batch shares one set of places."""
        distances = _allowed(reading.distances(), observation)  # (T, V)
        before, after = special_tokens(observation.public)
        near = distances.argsort(dim=1)  # (T, V)
        sentences = []
        for rank, length in enumerate(lengths):
            places = range(len(before), length - len(after))
            sentences.append([int(near[place, rank]) for place in places])
        return Recovery(sentences, note=reading.note)

    def _by_order(
        self, observation: Observation, reading: FirstReading, lengths: tuple[int, ...]
    ) -> Recovery:
        """The words of the span, as many as it has dimensions, in an order that reads well."""
        distances = _allowed(reading.distances(), observation)[0]  # (V,)
        count = min(reading.rank, int((distances < float(self.settings["farthest"])).sum()))
        types = distances.argsort()[:count].tolist()
        sentences = []
        if observation.public.prior is not None and len(lengths) == 1 and types:
            before, after = special_tokens(observation.public)
            size = lengths[0] - len(before) - len(after)
            beams = int(self.settings["beams"])
            sentences = [ordered_by_prior(observation.public.prior, types, size, beams)]
        return Recovery(sentences, frozenset(types), note=reading.note)


def _allowed(distances: Tensor, observation: Observation) -> Tensor:
    """Special and unused tokens are never the answer."""
    forbidden = [i for i in observation.public.forbidden_ids if i < distances.shape[1]]
    return distances.index_fill(
        1, torch.tensor(forbidden, dtype=torch.long, device=distances.device), float("inf")
    )
