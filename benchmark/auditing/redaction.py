"""Takes every word of private text out of a report, and leaves the figures."""

from __future__ import annotations

from collections import Counter

from benchmark.auditing.report import AttackFinding, ConditionFinding, Leak, Report, SentenceFinding
from benchmark.auditing.verdict import verdict
from benchmark.metrics.decoding import words
from benchmark.status import Status

RIGHT, WRONG = "xxxxx", "·····"
"""Stand for a word of the text, and for one that was recovered but is not in it."""
WITHHELD = "Withheld, since it may quote the text."


def redacted(report: Report) -> Report:
    """The same report with all private and all recovered text masked."""
    conditions = [_condition(each) for each in report.conditions]
    return report.model_copy(
        update={
            "verdict": verdict(conditions, name_words=False),
            "conditions": conditions,
            "attacks": [_attack(each) for each in report.attacks],
            "setup": report.setup.model_copy(update={"redacted": True}),
        }
    )


def _condition(condition: ConditionFinding) -> ConditionFinding:
    reason = condition.reason if condition.status in (Status.OK, Status.UNSUPPORTED) else WITHHELD
    sentences = [_sentence(each) for each in condition.sentences]
    return condition.model_copy(
        update={
            "sentences": sentences,
            "reason": reason,
            "quality_reason": WITHHELD if condition.quality_reason else "",
        }
    )


def _sentence(sentence: SentenceFinding) -> SentenceFinding:
    private = sentence.text or ""
    return sentence.model_copy(
        update={
            "text": None if sentence.text is None else " ".join([RIGHT] * len(private.split())),
            "recovered": _masked(sentence.recovered, private),
            "entities": [_leak(leak) for leak in sentence.entities],
            "numbers": [_leak(leak) for leak in sentence.numbers],
        }
    )


def _masked(recovered: str, private: str) -> str:
    """One sign a word, which says whether the private text has that word."""
    left = Counter(words(private))
    signs = []
    for word in recovered.split():
        found = Counter(words(word))
        right = bool(found) and found <= left
        left -= found if right else Counter()
        signs.append(RIGHT if right else WRONG)
    return " ".join(signs)


def _leak(leak: Leak) -> Leak:
    return Leak(text=RIGHT, leaked=leak.leaked)


def _attack(attack: AttackFinding) -> AttackFinding:
    """What a submission says itself may quote what it has read."""
    failed = attack.status not in (Status.OK, Status.UNSUPPORTED) and attack.reason
    return attack.model_copy(
        update={
            "note": WITHHELD if attack.note else "",
            "reason": WITHHELD if failed else attack.reason,
        }
    )
