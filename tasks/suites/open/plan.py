"""What `leakboard run --suite open` runs: about eight hours of two cores, the first part first."""

from __future__ import annotations

from benchmark.suites import NO_DEFENSE, ObjectiveName, Pairing
from tasks.suites.mini.plan import pairings

BASELINES = ("random", "prior_only", "public_sentences")
MATCHING = ("dlg_brief", "tag_brief", "lamp_cos_brief", "lamp_l2l1_brief")

PANELS: dict[ObjectiveName, tuple[str, ...]] = {
    "classification": (
        *("prior_only", "bag_of_words", "lamp_cos_brief", "lamp_l2l1_brief", "dager_brief"),
    ),
    "causal-lm": ("prior_only", "bag_of_words", "dager_brief"),
    "translation": ("prior_only", "bag_of_words", "flat_chat_brief"),
}
PLAN = (*pairings(("cola",), (*BASELINES, "bag_of_words", "dager")),)
UTILITY = (Pairing("cola", defense=NO_DEFENSE),)
