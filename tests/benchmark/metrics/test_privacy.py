"""NERR, PTLR and token types."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from benchmark.metrics.decoding import Reader, words
from benchmark.metrics.token_types import recovered_types, type_metrics
from benchmark.results.measure import measure
from benchmark.spec import Recovery, TrueSentence, Truth

PIECES = (
    "[UNK] [CLS] [SEP] ann smith anna met in sao paulo on may , . - ' $ "
    "7 20 ##24 5 000 flight ba ##12 42 berlin"
)
VOCABULARY = PIECES.split()


def build_tokenizer() -> Tokenizer:
    """A BERT-like tokenizer: lower case, no accents, word pieces."""
    pieces = {piece: index for index, piece in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


TOKENIZER = build_tokenizer()
SPECIAL = frozenset({0, 1, 2})
READER = Reader(lambda ids: str(TOKENIZER.decode(list(ids))), SPECIAL)


def ids(text: str) -> list[int]:
    return list(TOKENIZER.encode(text).ids)


def truth(*sentences: tuple[str, tuple[str, ...]]) -> Truth:
    return Truth(tuple(TrueSentence(tuple(ids(text)), text, entities=e) for text, e in sentences))


def nerr(true: Truth, *recovered: str) -> float | None:
    return measure(true, Recovery([ids(text) for text in recovered]), READER).get("nerr")


def ptlr(text: str, recovery: Recovery) -> float | None:
    return measure(truth((text, ())), recovery, READER).get("ptlr")


def test_words_lose_case_accents_and_punctuation() -> None:
    assert words("São-Paulo, it's $5,000!") == ["sao", "paulo", "it", "s", "5", "000"]
    assert words("...") == []


def test_entity_survives_what_the_tokenizer_does_to_it() -> None:
    true = truth(("Ann Smith met Anna in São Paulo", ("Ann Smith", "São Paulo")))
    assert nerr(true, "in são paulo, ann smith") == 1
    assert nerr(true, "in paulo, sao met ann, smith") == 0.5


def test_entity_must_be_whole_words_in_sequence() -> None:
    true = truth(("Ann Smith met Berlin", ("Ann Smith",)))
    assert nerr(true, "anna smith met berlin") == 0
    assert nerr(true, "smith ann met berlin") == 0
    assert nerr(true) == 0


def test_entity_counts_only_in_the_sentence_paired_with_its_own() -> None:
    true = truth(("ann met berlin", ("berlin",)), ("flight on may 7", ("may 7",)))
    assert nerr(true, "ann met may 7", "flight on berlin") == 0
    assert nerr(true, "flight on may 7", "ann met berlin") == 1


def test_entity_named_twice_must_be_recovered_twice() -> None:
    true = truth(("ann met ann", ("ann", "ann")))
    assert nerr(true, "ann met") == 0.5


def test_no_nerr_without_entities_or_for_entities_the_tokenizer_dropped() -> None:
    assert nerr(truth(("ann met anna", ())), "ann") is None
    assert nerr(truth(("ann met Zuckerberg", ("Zuckerberg",))), "ann") is None


def test_private_tokens_count_wherever_the_answer_has_them() -> None:
    """`ba12` is `ba` and the private `##12`; both times `7` was seen, if it was seen at all."""
    text = "flight BA12 on may 7, flight 7"
    assert ptlr(text, Recovery([ids("7 ba12")])) == 1
    assert ptlr(text, Recovery([ids("7 may")])) == pytest.approx(2 / 3)
    assert ptlr(text, Recovery([ids("may flight ba 20")])) == 0
    assert ptlr("ann met anna", Recovery([ids("7")])) is None


def test_private_tokens_of_one_number_count_one_by_one() -> None:
    pieces = [VOCABULARY.index("##24"), VOCABULARY.index("20")]
    assert ptlr("in 2024", Recovery([[pieces[0], *ids("may"), pieces[1]]])) == 1
    assert ptlr("in 2024", Recovery([pieces[:1]])) == 0.5


def test_order_is_nothing_to_private_tokens() -> None:
    """The same tokens as a sentence, in another order, and as types."""
    text = "ann met anna in 2024 on flight ba12, may 7."
    found = ids("2024 7 may")
    answers = Recovery([found]), Recovery([found[::-1]]), Recovery(token_types=frozenset(found))
    assert [ptlr(text, answer) for answer in answers] == [pytest.approx(3 / 4)] * 3
    assert ptlr(text, Recovery(token_types=frozenset())) == 0


def test_private_tokens_in_sentences_go_before_named_types() -> None:
    """Whoever names the whole vocabulary beside a sentence has not read the number in it."""
    everything = frozenset(range(3, len(VOCABULARY)))
    assert ptlr("may 7", Recovery([ids("may")], everything)) == 0
    assert ptlr("may 7", Recovery([ids("may 7")], frozenset(ids("may")))) == 1


def test_pieces_of_each_word() -> None:
    sentence = READER.read(ids("in 2024, $5,000 ba12"))
    found = {word: {VOCABULARY[i] for i in p} for word, p in READER.spelled_words(sentence)}
    assert found["2024"] == {"20", "##24"}
    assert found["ba12"] == {"ba", "##12"}


def test_pieces_of_a_character_split_into_bytes() -> None:
    """A byte-level tokenizer shows half of `é` as a replacement character."""
    reader = Reader(lambda tokens: bytes(tokens).decode(errors="replace"), frozenset())
    sentence = reader.read(list("€ é5 x".encode()))
    assert dict(reader.spelled_words(sentence))["e5"] == frozenset("é5".encode())


def test_types_named_by_the_attack_go_before_its_sentences() -> None:
    true = truth(("ann met anna", ()))
    both = Recovery([ids("berlin")], frozenset(ids("ann met")))
    assert recovered_types(true, both, SPECIAL) == frozenset(ids("ann met"))
    two = Recovery([ids("ann"), ids("met")])
    assert recovered_types(true, two, SPECIAL) == frozenset(ids("ann"))


def type_scores(true: Sequence[int], recovered: Sequence[int]) -> dict[str, float]:
    batch = Truth((TrueSentence(tuple(true), ""),))
    found = recovered_types(batch, Recovery(token_types=frozenset(recovered)), SPECIAL)
    return type_metrics(batch, found, SPECIAL)


def test_type_metrics_by_hand() -> None:
    result = type_scores([1, 3, 4, 5, 6, 3, 2], [0, 1, 2, 3, 4, 9])
    assert result == {
        "type_precision": pytest.approx(2 / 3),
        "type_recall": 0.5,
        "type_f1": pytest.approx(4 / 7),
        "type_count_error": 0.25,
    }


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_type_metrics_against_their_definitions(true: set[int], recovered: set[int]) -> None:
    result = type_scores(sorted(true), sorted(recovered))
    true, recovered = true - SPECIAL, recovered - SPECIAL
    if not true:
        assert result == {}
        return
    precision = len(true & recovered) / max(len(recovered), 1)
    recall = len(true & recovered) / len(true)
    f1 = 2 * precision * recall / (precision + recall) if precision else 0
    assert result["type_precision"] == precision
    assert result["type_recall"] == recall
    assert result["type_f1"] == pytest.approx(f1)
    assert result["type_count_error"] == pytest.approx(abs(len(recovered) / len(true) - 1))
