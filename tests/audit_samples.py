"""A report as an audit would write it, with hostile text in every place that text can reach."""

from __future__ import annotations

from datetime import UTC, datetime

from benchmark.auditing.report import (
    AttackFinding,
    ConditionFinding,
    Leak,
    NotTried,
    Report,
    SentenceFinding,
    Setup,
)
from benchmark.auditing.verdict import verdict
from benchmark.status import Status

HOSTILE = "<script>alert('Zanzibar')</script>"
SECRETS = ("Zanzibar", "Quimby", "90210", "peacock")
"""Words of the private and of the recovered text, which a redacted report must not have."""


def sentence(text: str, recovered: str, exact: bool) -> SentenceFinding:
    return SentenceFinding(
        text=text, recovered=recovered, attack="dager", exact=exact, rouge_l=1.0 if exact else 0.4,
        entities=[Leak(text="Quimby", leaked=exact), Leak(text=HOSTILE, leaked=True)],
        numbers=[Leak(text="90210", leaked=exact)],
    )  # fmt: skip


def condition(
    defense: str = "none", batch_size: int = 1, exact: int = 2, effect: str = "", **more: object
) -> ConditionFinding:
    texts = [f"Quimby keeps a peacock at 90210 {HOSTILE}"] * 2
    return ConditionFinding(
        defense=defense,
        batch_size=batch_size,
        status=Status.OK,
        sentences=[
            sentence(
                text,
                text if number < exact else f"a purple peacock {HOSTILE}",
                exact=number < exact,
            )
            for number, text in enumerate(texts)
        ],
        strongest="dager",
        rouge_l=exact / 2,
        type_f1=exact / 2,
        effect=effect,  # type: ignore[arg-type]
        update_seconds=0.02,
        update_bytes=123456.0,
        **more,  # type: ignore[arg-type]
    )


def attack(name: str = "dager", **more: object) -> AttackFinding:
    values: dict[str, object] = {
        "attack": name, "defense": "none", "batch_size": 1, "baseline": False,
        "status": Status.OK, "note": f"read {HOSTILE}", "sentences": 2, "exact": 2,
        "rouge_l": 1.0, "type_f1": 1.0, "seconds": 0.3,
    }  # fmt: skip
    return AttackFinding(**(values | more))  # type: ignore[arg-type]


def setup() -> Setup:
    return Setup(
        model=f"my model {HOSTILE}".replace("Zanzibar", "1"), architecture="bert",
        objective="classification", texts=10, batch_size=1, local_steps=1, max_tokens=32,
        granted=["labels", "prior"], entities_by="capital letters",
        dp_budget="one epoch over 1,000 texts in batches of 1, δ = 0.001", seed=0,
        budget_seconds=600.0, took_seconds=61.2, created=datetime(2026, 11, 20, 8, 30, tzinfo=UTC),
        version="0.1.0", sandbox="landlock", redacted=False, whole=False,
    )  # fmt: skip


def sample_report() -> Report:
    conditions = [
        condition(),
        condition("freeze_embeddings", effect="none"),
        condition("dpsgd[epsilon=8.0]", exact=0, effect="stops", epsilon=8.0,
                  quality={"accuracy": 0.71}),
        condition("prune", exact=1, effect="reduces", quality_reason=f"diverged on {HOSTILE}"),
        ConditionFinding(defense="mask", batch_size=1, status=Status.ERROR,
                         reason=f"it fell over {HOSTILE}"),
        condition(batch_size=2, exact=1),
    ]  # fmt: skip
    return Report(
        verdict=verdict(conditions),
        setup=setup(),
        conditions=conditions,
        attacks=[
            attack(),
            attack("random", baseline=True, exact=0, rouge_l=0.05, type_f1=0.1),
            attack(
                "tag", status=Status.ERROR, reason=f"KeyError: {HOSTILE}", rouge_l=None, sentences=0
            ),
            attack(
                "film",
                status=Status.UNSUPPORTED,
                reason="not defined for classification",
                sentences=0,
            ),
        ],
        not_tried=[NotTried(attack="dlg", defense="none", batch_size=1, reason="the time was up")],
    )
