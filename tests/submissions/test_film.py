"""FILM stage by stage, each fast path against its plain one, and whole in the harness."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from benchmark.results.schema import Status
from benchmark.spec import Observation, Public, Role, Update
from submissions.attacks.film import MARKS, Film
from submissions.blocks.film.beam import Penalties, Plan, beam_search, start_words
from submissions.blocks.film.language import Language
from submissions.blocks.film.norms import GradientNorms
from submissions.blocks.film.reorder import Reordering, Scorer, SwapBudget, shortened
from submissions.blocks.token_sets.bag import NOTHING_SHARED, read_bag
from tests.harness import RunCells
from tests.submissions.film_setup import (
    MORE,
    TEXTS,
    PlainContinuations,
    ids_of,
    make_public,
    observe,
)
from tests.submissions.test_baselines import means


@pytest.fixture(scope="module")
def public() -> Public:
    return make_public()


@pytest.fixture(scope="module")
def observation(public: Public) -> Observation:
    return observe(public)


def make_plan(observation: Observation, **changes: object) -> Plan:
    """As the attack plans, with small beams."""
    words = read_bag(observation).types
    plan = Plan(
        words=words,
        starts=start_words(observation.public, words, "bare"),
        start=Language(observation.public).start[-1],
        longest=16,
        is_length=False,
        beams=8,
        groups=2,
        penalties=Penalties(ngram=2, repeated=100.0, found=5.0, diversity=0.1),
        length_power=1.0,
    )
    return replace(plan, **changes)  # type: ignore[arg-type]


def search(observation: Observation, plan: Plan, found: list[list[int]] | None = None) -> list[int]:
    model = Language(observation.public).continuations(plan.words)
    return beam_search(model, plan, found or [])[0][1]


# ------------------------------------------------------------------------------------ the bag


def without(observation: Observation, role: Role) -> Observation:
    """As a client that does not share the tensor of a role."""
    name = observation.public.roles.names[role]
    kept = {n: t for n, t in observation.update.tensors.items() if n != name}
    return replace(observation, update=replace(observation.update, tensors=kept))


def altered(observation: Observation, value: torch.Tensor, **known: float) -> Observation:
    """The same update with another word-embedding gradient."""
    name = observation.public.roles.names[Role.WORD_EMBEDDING]
    tensors = dict(observation.update.tensors) | {name: value}
    return replace(observation, update=Update(tensors, **known))  # type: ignore[arg-type]


def test_frozen_embeddings_leave_nothing_to_read(observation: Observation) -> None:
    frozen = without(observation, Role.WORD_EMBEDDING)
    bag = read_bag(frozen)
    assert len(bag) == 0
    answer = Film().recover(frozen)
    assert not answer.sentences
    assert answer.token_types == frozenset()
    assert answer.note == NOTHING_SHARED
    asked = Film(fallback="prior").recover(frozen)
    assert len(asked.sentences) == 1
    assert "prior" in asked.note


@pytest.mark.parametrize("noise_over", ["width", "matrix"])
def test_noise_is_told_from_words_by_the_threshold(
    observation: Observation, noise_over: str
) -> None:
    """σ√(2 ln d): with all entries as d no absent word passes, with the width about a fifth do."""
    gradient = observation.gradient(Role.WORD_EMBEDDING)
    assert gradient is not None
    truth = set(read_bag(observation).types.tolist())
    scale = float(gradient.abs().max()) / 50
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(gradient.shape, generator=generator) * scale
    noisy = altered(observation, gradient + noise, noise_scale=scale)
    found = set(read_bag(noisy, noise_over).types.tolist())
    assert len(found & truth) > 0.5 * len(truth)
    absent = len(found - truth) / len(gradient)
    assert absent < 0.001 if noise_over == "matrix" else 0.1 < absent < 0.35


def test_pruning_leaves_the_rows_that_are_not_zero(observation: Observation) -> None:
    gradient = observation.gradient(Role.WORD_EMBEDDING)
    assert gradient is not None
    truth = set(read_bag(observation).types.tolist())
    least = gradient.abs().flatten().topk(40).values[-1]
    found = set(read_bag(altered(observation, gradient * (gradient.abs() >= least))).types.tolist())
    assert found < truth
    assert found


def test_a_tied_matrix_under_noise_gives_no_more_than_fits() -> None:
    tied = observe(make_public("gpt2-tied"))
    gradient = tied.gradient(Role.WORD_EMBEDDING)
    assert gradient is not None
    truth = set(read_bag(tied).types.tolist())
    scale = float(gradient.abs().max()) / 30
    noise = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(0)) * scale
    noisy = altered(tied, gradient + noise, noise_scale=scale)
    found = set(read_bag(noisy).types.tolist())
    assert found & truth
    assert len(found) <= 40


def test_a_broken_update_is_refused_in_a_sentence(observation: Observation) -> None:
    gradient = observation.gradient(Role.WORD_EMBEDDING)
    assert gradient is not None
    with pytest.raises(ValueError, match="NaN"):
        Film().recover(altered(observation, gradient * float("nan")))
    answer = Film().recover(altered(observation, gradient * 0))
    assert "empty" in answer.note


def test_an_empty_or_pruned_tied_matrix_names_no_row_that_holds_nothing() -> None:
    tied = observe(make_public("gpt2-tied"))
    gradient = tied.gradient(Role.WORD_EMBEDDING)
    assert gradient is not None
    assert len(read_bag(altered(tied, gradient * 0))) == 0
    least = gradient.abs().flatten().topk(30).values[-1]
    pruned = gradient * (gradient.abs() >= least)
    found = set(read_bag(altered(tied, pruned)).types.tolist())
    assert found
    assert found <= set(pruned.any(dim=1).nonzero().flatten().tolist())


# --------------------------------------------------------------------------------- beam search


@pytest.mark.parametrize("model", ["gpt2-finetuned", "gpt2-tied", "llama"])
def test_the_cache_finds_the_beams_that_recomputing_finds(model: str) -> None:
    public = make_public(model)
    seen = observe(make_public("gpt2-finetuned"))
    plan = make_plan(seen, longest=8)
    end = Language(public).end[0]
    fast = beam_search(Language(public).continuations(plan.words), plan)
    slow = beam_search(PlainContinuations(public.model, plan.words, end), plan)
    assert [sentence for _, sentence in fast] == [sentence for _, sentence in slow]
    assert [s for s, _ in fast] == pytest.approx([s for s, _ in slow], abs=1e-4)


def test_beams_obey_the_rules(observation: Observation) -> None:
    """Capitals begin, no pair comes twice, and known frequencies are not exceeded."""
    tokenizer = observation.public.tokenizer
    plan = make_plan(observation)
    model = Language(observation.public).continuations(plan.words)
    for _, sentence in beam_search(model, plan):
        assert str(tokenizer.decode(sentence[:1]))[:1].isupper()
        pairs = list(pairwise(sentence))
        assert len(set(pairs)) == len(pairs)
    once = replace(plan, counts=torch.ones_like(plan.words))
    model = Language(observation.public).continuations(plan.words)
    for _, sentence in beam_search(model, once):
        assert len(set(sentence)) == len(sentence)


def test_a_lone_sentence_uses_its_words_evenly() -> None:
    """Leaving out words and using others again both cost, so the best sentence does less of it."""
    observation = observe(make_public("gpt2-pretrained"))
    plan = make_plan(observation, longest=24)
    even = replace(plan, penalties=replace(plan.penalties, uneven=6.0))
    careless, careful = (search(observation, each) for each in (plan, even))
    left_out = [set(plan.words.tolist()) - set(found) for found in (careless, careful)]
    assert len(left_out[1]) < len(left_out[0])
    assert len(careful) - len(set(careful)) <= len(careless) - len(set(careless)) + 1


def test_what_was_found_is_avoided(public: Public) -> None:
    batch = observe(public, MORE)
    plan = make_plan(batch, longest=30)
    first = search(batch, plan)
    second = search(batch, plan, [first])
    shared = set(pairwise(first)) & set(pairwise(second))
    assert second != first
    assert len(shared) < len(first) / 2


def test_diversity_spreads_the_groups(observation: Observation) -> None:
    plan = make_plan(observation, longest=4, starts=torch.ones(1, dtype=torch.bool))
    plan = replace(plan, starts=torch.ones_like(plan.words, dtype=torch.bool))

    def distinct(diversity: float) -> int:
        penalties = replace(plan.penalties, diversity=diversity)
        model = Language(observation.public).continuations(plan.words)
        found = beam_search(model, replace(plan, penalties=penalties))
        return len({sentence[0] for _, sentence in found})

    assert distinct(20.0) > distinct(0.0)


def test_sentences_begin_with_capitals_where_there_are_any(public: Public) -> None:
    words = torch.tensor(sorted({*ids_of(public, "The town of Norton grew")}))
    starts = words[start_words(public, words, "bare")]
    assert [public.tokenizer.decode([int(i)]) for i in starts] == ["The"]
    assert len(words[start_words(public, words, "capital")]) > 1  # as in the paper, with spaces too
    assert start_words(public, words, "any").all()
    lower = torch.tensor(ids_of(public, "of"))
    assert start_words(public, lower, "bare").all()


# ---------------------------------------------------------------------------------- reordering


@pytest.mark.parametrize("model", ["gpt2-finetuned", "gpt2-tied", "llama"])
def test_norms_are_those_of_the_gradients(model: str) -> None:
    """Also over the parameters that are shared alone, and beside longer sentences."""
    public = make_public(model)
    language = Language(public)
    batch = language.encode([ids_of(public, text) for text in MORE])
    everything = [name for name, _ in public.model.named_parameters()]
    embedding = public.roles.names[Role.WORD_EMBEDDING]
    for names in (everything, [n for n in everything if n != embedding], [embedding]):
        norms = GradientNorms(public.model, public.objective, names)
        assert norms.is_traced
        torch.testing.assert_close(norms.traced(batch), norms.plain(batch), rtol=1e-4, atol=1e-5)


def test_a_layer_without_a_rule_is_measured_the_plain_way(public: Public) -> None:
    class Odd(torch.nn.Linear):
        """Not a type that the rules know."""

    strange = make_public()
    strange.model.lm_head.__class__ = Odd
    names = [name for name, _ in strange.model.named_parameters()]
    norms = GradientNorms(strange.model, strange.objective, names)
    assert not norms.is_traced
    batch = Language(strange).encode([ids_of(strange, TEXTS[0])])
    usual = GradientNorms(public.model, public.objective, names)
    torch.testing.assert_close(norms(batch), usual(batch), rtol=1e-4, atol=1e-5)


def make_scorer(public: Public, weight: float = 1.0) -> Scorer:
    names = [name for name, _ in public.model.named_parameters()]
    return Scorer(Language(public), GradientNorms(public.model, public.objective, names), weight)


def test_a_score_is_perplexity_and_gradient_norm(public: Public) -> None:
    scorer = make_scorer(public, weight=2.0)
    sentences = [tuple(ids_of(public, text)) for text in MORE]
    batch = scorer.language.encode(sentences)
    losses = public.objective.losses(public.model, batch).detach()
    expected = losses.exp() + 2 * scorer.norms.plain(batch)
    assert scorer.scores(sentences) == pytest.approx(expected.tolist(), rel=1e-3)
    bound = float(expected.min()) + 1e-3
    kept = scorer.scores(sentences, below=bound)
    assert [score < bound for score in kept] == [float(e) < bound for e in expected]


def test_reordering_only_gets_better_and_repairs_a_swap(public: Public) -> None:
    truth = ids_of(public, TEXTS[0])
    broken = [*truth[:2], truth[3], truth[2], *truth[4:]]
    scorer = make_scorer(public)
    before, goal = scorer.scores([tuple(broken), tuple(truth)])
    effort = SwapBudget(
        phrase_steps=2,
        token_steps=40,
        proposals=32,
        patience=0,
        keeps_words=True,
        keeps_length=True,
    )
    found, again, other = (
        Reordering(scorer, effort, truth, 40, seed).improve(broken, frozenset())
        for seed in (0, 0, 1)
    )
    assert found == again
    assert max(found[0], other[0]) < before
    assert min(found[0], other[0]) <= goal + 1e-3  # one of two draws is not caught on the way
    assert set(truth) <= set(found[1])


def test_a_single_sentence_has_the_length_that_positions_show(observation: Observation) -> None:
    """And every word of the bag stays in it; without these rules the search is the paper's."""
    truth = ids_of(observation.public, TEXTS[0])
    quick = {"phrase_steps": 2, "token_steps": 5, "beams": 8}
    answer = Film(**quick).recover(observation).sentences[0]
    assert len(answer) == len(truth)
    free = make_plan(observation, longest=30)
    bound = replace(free, is_length=True)
    assert len(search(observation, bound)) == 30
    assert len(search(observation, free)) < 30


def test_phrases_are_permuted_whole(public: Public) -> None:
    truth = tuple(ids_of(public, TEXTS[0]))
    effort = SwapBudget(1, 1, 16, 0, False, False)
    search = Reordering(make_scorer(public), effort, truth, 40, seed=0)
    proposals = list(search.phrases(truth))
    assert len(proposals) == 16
    assert all(sorted(p) == sorted(truth) for p in proposals)
    neighbors = set(pairwise(truth))
    assert all(len(set(pairwise(p)) - neighbors) <= 5 for p in proposals)
    lengths = {len(p) - len(truth) for p in search.tokens(truth)}
    assert lengths == {-1, 0, 1}


def test_redundant_segments_end_at_the_first_mark(public: Public) -> None:
    sentence = tuple(ids_of(public, "The town grew. The town, too"))
    marks = frozenset(i for i in sentence if str(public.tokenizer.decode([i])).strip() in MARKS)
    assert public.tokenizer.decode(list(shortened(sentence, marks))) == "The town grew."
    assert shortened(sentence, frozenset()) == sentence


def test_a_reached_time_limit_still_gives_an_answer(observation: Observation) -> None:
    late = replace(observation, seconds_left=lambda: -1.0)
    answer = Film().recover(late)
    assert "time limit" in answer.note
    assert answer.stopped_by_clock
    assert answer.token_types


# ------------------------------------------------------------------------------- in the harness


def test_film_reads_sentences_that_the_model_was_trained_on(run_cells: RunCells) -> None:
    """The setting of the paper."""
    record = run_cells("film_beam_only", task="mini/enron-memorized")[0]
    assert record.status is Status.OK, record.reason
    found = means(record)
    assert found["rougeL"] >= 0.6
    assert found["exact_match"] > 0
    assert found["type_f1"] == 1.0


def test_film_reads_much_of_sentences_that_are_new_to_the_model(run_cells: RunCells) -> None:
    record = run_cells("film_beam_only", task="mini/enron")[0]
    assert record.status is Status.OK, record.reason
    found = means(record)
    assert found["rougeL"] >= 0.35
    assert found["type_f1"] == 1.0


def test_the_oracle_needs_to_be_told(run_cells: RunCells) -> None:
    refused = run_cells("film_oracle_frequency", task="mini/enron")[0]
    assert refused.status is Status.UNSUPPORTED
    assert "frequencies" in refused.reason
    quick = "film[frequencies=oracle,phrase_steps=0,token_steps=0]"
    told = run_cells(quick, task="mini/enron-oracle")[0]
    assert told.status is Status.OK, told.reason
    assert means(told)["rougeL"] >= 0.35


def test_more_searches_find_more_sentences(public: Public) -> None:
    batch = observe(public, MORE)
    once = Film(repetitions=1, phrase_steps=0, token_steps=0).recover(batch)
    twice = Film(phrase_steps=0, token_steps=0).recover(batch)
    assert len(once.sentences) == 1
    assert len(twice.sentences) == 2
    assert len({tuple(s) for s in twice.sentences}) == 2
