"""The verdict of an audit in plain sentences, the most important one first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from benchmark.auditing.report import ConditionFinding, Leak
from benchmark.status import Status
from benchmark.suites import NO_DEFENSE

MOST_EXAMPLES = 5
"""Leaked words that a sentence names."""

NOUNS = {
    "entities": ("named entity", "named entities"),
    "numbers": ("word with digits", "words with digits"),
}


def verdict(conditions: Sequence[ConditionFinding], name_words: bool = True) -> list[str]:
    """Sentences about the leak, what is in it, the defenses and the batch size."""
    if not conditions:
        return ["Nothing has been found out yet."]
    first, *others = conditions
    if first.sentences and first.sentences[0].text is None:
        return list(_blind(first))
    defended = [each for each in others if each.defense != NO_DEFENSE]
    sizes = [each for each in others if each.defense == NO_DEFENSE]
    return [
        _leak(first),
        *_shown(first, name_words),
        *(_defense(each, first) for each in defended),
        *_sizes(first, sizes),
    ]


def _blind(found: ConditionFinding) -> Iterator[str]:
    """Of an update whose text nobody has told."""
    texts = sum(bool(sentence.recovered) for sentence in found.sentences)
    yield (
        f"{_many(texts, 'sentence was', 'sentences were')} recovered from the update by "
        f"{found.strongest or 'the attacks'}; whether they are right, you can tell."
        if texts
        else "No attack tried has recovered a sentence from this update."
    )


def _leak(found: ConditionFinding) -> str:
    """How much of the text can be read without a defense."""
    total, where = len(found.sentences), _batch(found.batch_size)
    if not total:
        return "No attack tried has given an answer, so nothing is known about the leak."
    if found.exact:
        return (
            f"{found.exact} of {_many(total, 'sentence', 'sentences')} can be read back exactly "
            f"from one {where}, without a defense."
        )
    if not found.strongest or max(found.rouge_l, found.type_f1) < 0.05:
        return f"No attack tried has read anything from one {where}, without a defense."
    return (
        f"No sentence was read back exactly from one {where}; {found.strongest} comes closest "
        f"(ROUGE-L {found.rouge_l:.2f}, F1 of token types {found.type_f1:.2f})."
    )


def _batch(size: int) -> str:
    return "gradient" if size == 1 else f"gradient of {size} sentences"


def _shown(found: ConditionFinding, name_words: bool) -> Iterator[str]:
    """Entities and words with digits that came back."""
    kinds: tuple[Literal["entities", "numbers"], ...] = ("entities", "numbers")
    for kind in kinds:
        leaks = found.leaks(kind)
        leaked = [leak for leak in leaks if leak.leaked]
        if leaks:
            such = f", such as {_examples(leaked)}" if leaked and name_words else ""
            noun = NOUNS[kind][len(leaks) > 1]
            yield f"{len(leaked)} of {len(leaks)} {noun} leaked{such}."


def _examples(leaked: Sequence[Leak]) -> str:
    texts = list(dict.fromkeys(leak.text for leak in leaked))[:MOST_EXAMPLES]
    last = texts[-1].rstrip(".")  # the sentence has a period of its own
    return " and ".join(filter(None, [", ".join(texts[:-1]), last]))


def _defense(found: ConditionFinding, plain: ConditionFinding) -> str:
    name, total = found.defense, len(found.sentences)
    if found.status is not Status.OK:
        return f"{name} could not be measured: {found.reason}."
    if not total:
        return f"{name}: no attack tried has given an answer."
    privacy = "" if found.epsilon is None else f" (ε = {found.epsilon:.3g})"
    left = f"{found.exact} of {_many(total, 'sentence', 'sentences')}"
    match found.effect:
        case "stops" if found.unfinished:
            open_ = " and ".join(found.unfinished)
            return f"{name}{privacy} stops the attacks that came to an end; {open_} did not."
        case "stops":
            return f"{name}{privacy} stops all attacks tried."
        case "none" if found.exact:
            return f"{name}{privacy} does not help: {left} can still be read back exactly."
        case "none":
            return f"{name}{privacy} does not help: ROUGE-L is still {found.rouge_l:.2f}."
    before = f"ROUGE-L falls from {plain.rouge_l:.2f} to {found.rouge_l:.2f}"
    types = f"F1 of token types from {plain.type_f1:.2f} to {found.type_f1:.2f}"
    return f"{name}{privacy} helps in part: {left} can be read back exactly, {before}, {types}."


def _sizes(first: ConditionFinding, others: Sequence[ConditionFinding]) -> Iterator[str]:
    """Whether larger batches protect."""
    sizes = sorted((*others, first), key=lambda each: each.batch_size)
    known = [each for each in sizes if each.sentences]
    if len(known) > 1:
        parts = [f"{each.exact} of {len(each.sentences)} at {each.batch_size}" for each in known]
        yield f"Sentences read back exactly by batch size: {', '.join(parts)}."


def _many(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
