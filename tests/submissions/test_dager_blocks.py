"""What DAGER is made of, each against a plain reference."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    MPNetConfig,
    MPNetForSequenceClassification,
)

from benchmark.spec import Batch, Client, Observation, Public, Update
from submissions.attacks import dager
from submissions.attacks.dager import Dager
from submissions.blocks.clock import Clock
from submissions.blocks.dager import completion
from submissions.blocks.dager.anatomy import Anatomy
from submissions.blocks.dager.completion import completed
from submissions.blocks.dager.context import Context
from submissions.blocks.dager.effort import Effort
from submissions.blocks.dager.heads import Heads
from submissions.blocks.dager.peeling import Peeling, Remainder
from submissions.blocks.dager.reader import Reader, Settings
from submissions.blocks.dager.shares import shares_of
from submissions.blocks.dager.spans import noisy_rank, rank_of, span_of, widest_gap
from submissions.blocks.dager.vocabulary import (
    FirstInputs,
    candidates,
    closest,
    ratios_of_all,
)
from tasks.models.roles import roles
from tasks.objectives import OBJECTIVES
from tests.submissions.test_matching_models import VOCABULARY, make_tokenizer

SMALL: dict[str, Any] = {
    "vocab_size": len(VOCABULARY), "hidden_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 4, "intermediate_size": 128, "attn_implementation": "eager",
}  # fmt: skip


def make_model(kind: str) -> Any:
    torch.manual_seed(0)
    config: Any  # of any of the classes below
    eager: dict[str, Any] = {"attn_implementation": "eager", "initializer_range": 0.1}
    match kind:
        case "bert":
            return BertForSequenceClassification(BertConfig(**SMALL, initializer_range=0.1)).eval()
        case "mpnet":
            config = MPNetConfig(**SMALL, initializer_range=0.1)
            model = MPNetForSequenceClassification(config).eval()
            model.mpnet.embeddings.padding_idx = -1  # the tests' tokenizer pads with another id
            return model
        case "distilbert":
            config = DistilBertConfig(
                vocab_size=len(VOCABULARY), dim=64, n_layers=3, n_heads=4, hidden_dim=128,
                **eager,
            )  # fmt: skip
            return DistilBertForSequenceClassification(config).eval()
        case _:
            config = LlamaConfig(**SMALL, num_key_value_heads=2, initializer_range=0.1)
            return LlamaForCausalLM(config).eval()


def observe(kind: str, sentences: list[list[int]]) -> tuple[Observation, Tensor]:
    """An update of sentences of word numbers, and their ids with special tokens."""
    model = make_model(kind)
    tokenizer = make_tokenizer(kind == "llama")
    objective = OBJECTIVES["causal-lm" if kind == "llama" else "classification"]
    texts = [" ".join(f"word{i}" for i in words) for words in sentences]
    batch: Batch = objective.encode(tokenizer, texts, [i % 2 for i in range(len(texts))], None, 40)
    public = Public(
        task="tests/dager", objective=objective, model=model, tokenizer=tokenizer,
        roles=roles(model), batch_size=len(texts), batch_tokens=None, max_tokens=40,
        grants=frozenset(), text=(), prior=None, device=torch.device("cpu"), seed=0,
    )  # fmt: skip
    client = Client(model, objective, roles(model), torch.Generator())
    update = client.update(batch, [name for name, _ in model.named_parameters()])
    return Observation(public, update, len(texts), seed=0), batch.input_ids


@pytest.mark.parametrize("kind", ["bert", "distilbert", "mpnet", "llama"])
def test_two_sentences_without_any_knowledge(kind: str) -> None:
    observation, ids = observe(kind, [[3, 14, 15, 9, 2, 6], [5, 35, 8, 14]])
    hidden = observation.public.forbidden_ids
    truth = {tuple(i for i in row if i not in hidden) for row in ids.tolist()}
    answer = Dager().recover(observation)
    assert {tuple(sentence) for sentence in answer.sentences} == truth
    assert answer.token_types == frozenset(i for row in truth for i in row)


def test_without_attention_gradients_there_is_nothing_to_read() -> None:
    observation, _ = observe("bert", [[3, 14, 15]])
    kept = {n: t for n, t in observation.update.tensors.items() if "attention" not in n}
    answer = Dager().recover(replace(observation, update=Update(kept)))
    assert not answer.sentences
    assert "no gradient of the first attention" in answer.note


def test_a_long_sentence_without_learned_positions() -> None:
    """Words of all places share one set of candidates."""
    observation, ids = observe("llama", [list(range(2, 38))])
    truth = [i for i in ids[0].tolist() if i not in observation.public.forbidden_ids]
    assert [list(s) for s in Dager().recover(observation).sentences] == [truth]


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_an_update_of_zeros_says_nothing(kind: str) -> None:
    observation, _ = observe(kind, [[3, 14, 15]])
    empty = {n: torch.zeros_like(t) for n, t in observation.update.tensors.items()}
    answer = Dager().recover(replace(observation, update=Update(empty)))
    assert not answer.sentences
    assert "no gradient of the first attention" in answer.note


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_one_word_is_read(kind: str) -> None:
    observation, ids = observe(kind, [[7]])
    truth = [i for i in ids[0].tolist() if i not in observation.public.forbidden_ids]
    assert [list(s) for s in Dager().recover(observation).sentences] == [truth]


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_the_difference_after_local_steps_is_read(kind: str) -> None:
    words = [[3, 14, 15, 9, 2, 6], [5, 35, 8], [11, 7, 20, 2]]
    observation, ids = observe(kind, words)
    public = observation.public
    client = Client(
        public.model, public.objective, public.roles, torch.Generator(), local_steps=3,
        learning_rate=1e-4,
    )  # fmt: skip
    texts = [" ".join(f"word{i}" for i in each) for each in words]
    batch = public.objective.encode(public.tokenizer, texts, [0, 1, 0], None, 40)
    update = client.update(batch, [name for name, _ in public.model.named_parameters()])
    assert update.kind == "difference"
    found = Dager().recover(replace(observation, update=update)).sentences
    truth = {tuple(i for i in row if i not in public.forbidden_ids) for row in ids.tolist()}
    assert {tuple(sentence) for sentence in found} == truth


def test_an_update_with_a_hole_in_it_is_named() -> None:
    observation, _ = observe("bert", [[3, 14, 15]])
    tensors = {n: t.clone() for n, t in observation.update.tensors.items()}
    tensors["bert.encoder.layer.0.attention.self.query.weight"][0, 0] = float("nan")
    with pytest.raises(ValueError, match="not finite"):
        Dager().recover(replace(observation, update=Update(tensors)))


def noisy(observation: Observation, times: float) -> Observation:
    """With noise of so many times the deviation of a value gradient's entries."""
    tensors = observation.update.tensors
    scale = times * float(tensors["bert.encoder.layer.0.attention.self.value.weight"].std())
    generator = torch.Generator().manual_seed(1)
    added = {n: t + scale * torch.randn(t.shape, generator=generator) for n, t in tensors.items()}
    return replace(observation, update=Update(added, noise_scale=scale))


def test_known_noise_sets_the_threshold() -> None:
    observation, ids = observe("bert", [[3, 14, 15, 9, 2, 6]])
    update = noisy(observation, 1e-4).update
    for known in (update.noise_scale, None):
        update = Update(update.tensors, noise_scale=known)
        answer = Dager().recover(replace(observation, update=update))
        assert list(answer.sentences[0]) == ids[0, 1:-1].tolist()


def test_the_filter_accepts_what_a_plain_projection_accepts() -> None:
    observation, _ = observe("bert", [[3, 14, 15, 9], [9, 14, 5]])
    anatomy = Anatomy(observation.public.model)
    span = span_of(anatomy.first, observation.update.tensors, None)
    assert span is not None
    inputs = FirstInputs(anatomy, 12)
    found = candidates(inputs, span, 6.0, torch.Generator().manual_seed(0))
    words = torch.arange(len(VOCABULARY)).repeat(12, 1)  # (P, V)
    seen = anatomy.inputs(words.T, [anatomy.first])[0]  # (V, P, D), as the model itself makes them
    plain = (span.ratios(seen) <= 6.0).nonzero()
    assert sorted(zip(found.tokens.tolist(), found.positions.tolist(), strict=True)) == sorted(
        (int(t), int(p)) for t, p in plain
    )


@pytest.mark.parametrize("kind", ["bert", "mpnet", "distilbert", "llama"])
@pytest.mark.parametrize("limit", [6.0, 1e9])
def test_distances_without_building_pairs_are_those_of_the_pairs(kind: str, limit: float) -> None:
    """More pairs than words survive the larger limit."""
    observation, _ = observe(kind, [[3, 14, 15, 9], [9, 14, 5]])
    anatomy = Anatomy(observation.public.model)
    span = span_of(anatomy.first, observation.update.tensors, None)
    assert span is not None
    inputs = FirstInputs(anatomy, 12)
    found = candidates(inputs, span, limit, torch.Generator().manual_seed(0))
    plain = span.ratios(inputs.build(found.tokens, found.positions))
    assert (len(found.tokens) > len(VOCABULARY)) == (limit > 6.0 and inputs.has_places)
    torch.testing.assert_close(found.ratios, plain, rtol=1e-3, atol=0.1)
    every = ratios_of_all(inputs, span, range(len(inputs.places)))
    torch.testing.assert_close(every[found.positions, found.tokens], plain, rtol=1e-3, atol=0.1)


def test_the_closest_words_are_those_of_a_plain_projection() -> None:
    observation, _ = observe("bert", [[3, 14, 15, 9], [9, 14, 5]])
    anatomy = Anatomy(observation.public.model)
    span = span_of(anatomy.first, observation.update.tensors, None)
    assert span is not None
    inputs, words = FirstInputs(anatomy, 12), torch.arange(5, len(VOCABULARY))
    found = closest(inputs, span, [2, 7], words, 3)
    for place in (2, 7):
        plain = span.ratios(inputs.build(words, torch.full_like(words, place)))
        expected = words[plain.argsort()[:3]]
        assert found.tokens[found.positions == place].tolist() == expected.tolist()


def test_noise_that_hides_everything_does_not_prolong_the_search() -> None:
    """Ends are hidden, too, so sentences of any length are tried, with very many orders each."""
    words = [list(range(first, first + 36)) for first in (2, 3, 4)]
    observation = noisy(observe("bert", words)[0], 10.0)
    effort = Effort(50_000_000, Clock(lambda: math.inf))
    reader = Reader(observation.public, Settings(6.0, 256, 32, 24))
    reader.read(observation, effort)
    assert 50_000_000 <= effort.spent < 300_000_000  # that and no more than one step


def test_a_trial_equals_the_model_s_own_heads() -> None:
    observation, _ = observe("mpnet", [[3, 14, 15, 9]])
    anatomy = Anatomy(observation.public.model)
    site = anatomy.behind(False)[0]
    span = span_of(site, observation.update.tensors, None)
    assert span is not None
    positions = torch.arange(5).repeat_interleave(3)  # three words at each of five places
    tokens = torch.arange(5, 20)
    inputs = FirstInputs(anatomy, 5).build(tokens, positions).float()
    with torch.inference_mode():
        generator, effort = torch.Generator().manual_seed(0), Effort(10**9, Clock(lambda: math.inf))
        context = Context(Heads(anatomy), inputs, positions, span, 64, generator, effort)
        chosen = torch.tensor([[0, 4, 8, 10, 13], [2, 3, 6, 9, 12]])
        tried = context.trials(chosen, 2, torch.tensor([6, 7, 8]))  # (N, M)
        for number, entry in enumerate((6, 7, 8)):
            changed = chosen.clone()
            changed[:, 2] = entry
            heads = anatomy.inputs(tokens[changed], [site])[0]
            plain = (heads.double() @ span.null).square().sum(dim=(1, 2))
            torch.testing.assert_close(tried[:, number].double(), plain, rtol=1e-4, atol=1e-8)
            torch.testing.assert_close(context.losses(changed).sum(1).double(), plain,
                                       rtol=1e-4, atol=1e-8)  # fmt: skip


def test_shares_tell_what_is_there_from_what_only_fits() -> None:
    """Words 1 and 2 at places 1 and 2 make word 2 at place 1 fit, which never occurred."""
    observation, ids = observe("bert", [[1, 2, 7, 8], [1, 1, 9, 4], [6, 2, 1, 5]])
    anatomy = Anatomy(observation.public.model)
    span = span_of(anatomy.first, observation.update.tensors, None)
    assert span is not None
    inputs = FirstInputs(anatomy, 6)
    found = candidates(inputs, span, 6.0, torch.Generator().manual_seed(0))
    truth = {(p, int(i)) for row in ids for p, i in enumerate(row)}
    pairs = list(zip(found.positions.tolist(), found.tokens.tolist(), strict=True))
    assert truth <= set(pairs)
    assert len(pairs) > len(truth)
    sizes = shares_of(anatomy.first, observation.update.tensors, span,
                      inputs.build(found.tokens, found.positions)).sizes  # fmt: skip
    largest = {pairs[k] for k in sizes.argsort(descending=True)[: len(truth)].tolist()}
    assert len(largest & truth) / len(truth) > len(truth) / len(pairs) + 0.1


def test_rank_under_noise_is_that_of_the_signal() -> None:
    generator = torch.Generator().manual_seed(0)
    signal = torch.randn(300, 7, generator=generator) @ torch.randn(7, 100, generator=generator)
    noisy = (signal + 0.1 * torch.randn(300, 100, generator=generator)).double()
    values = torch.linalg.svdvals(noisy)
    assert noisy_rank(values, 300, 0.1) == noisy_rank(values, 300, None) == 7


def test_missing_entries_follow_from_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(n, 5, generator=generator).double() for n in (200, 60))
    whole = left @ right.T
    holes = torch.rand(whole.shape, generator=generator) < 0.5
    filled = completed(whole.masked_fill(holes, 0.0))
    assert float((filled - whole).norm() / whole.norm()) < 1e-4
    assert torch.equal(completed(whole), whole)


def test_missing_entries_are_sought_by_counted_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a low rank the fit ends where its work does; without any work nothing is filled."""
    generator = torch.Generator().manual_seed(0)
    whole = torch.randn(200, 60, generator=generator).double()
    holes = torch.rand(whole.shape, generator=generator) < 0.5
    sent, ranks, fit = whole.masked_fill(holes, 0.0), [], completion._fit

    def counted(target: Tensor, mask: Tensor, basis: Tensor) -> Tensor:
        ranks.append(basis.shape[1])
        return fit(target, mask, basis)

    monkeypatch.setattr(completion, "_fit", counted)
    monkeypatch.setattr(completion, "WORK", 2 * 41 * 200 * 60 * 3**2)
    filled = completed(sent)
    assert max(ranks) == 3
    assert torch.equal(filled[~holes], sent[~holes])
    assert bool(filled[holes].any())
    monkeypatch.setattr(completion, "WORK", 0)
    assert torch.equal(completed(sent), sent)


READ = [[3, 9, 12, 30], [5, 7, 14, 9, 21], [8, 33, 2, 17, 6, 11]]


def peel(kind: str, number: int, scale: float = 1.0) -> tuple[Remainder | None, Tensor]:
    """What is left without one of three sentences, each word of it moved on by a wrong scale."""
    observation, ids = observe(kind, READ)
    anatomy = Anatomy(observation.public.model)
    peeling = Peeling(observation.public, [anatomy.first, *anatomy.behind(False)])
    tensors = {n: scale * t for n, t in observation.update.tensors.items()}
    whole = replace(observation, update=Update(tensors))
    row = ids[number][: len(READ[number]) + 2].tolist()
    return peeling.without(Remainder(whole), [row], len(READ)), ids


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_a_rank_is_that_of_the_span(kind: str) -> None:
    observation, _ = observe(kind, READ)
    anatomy = Anatomy(observation.public.model)
    for site in [anatomy.first, *anatomy.behind(kind == "llama")]:
        span = span_of(site, observation.update.tensors, None)
        assert span is not None
        assert 0 < rank_of(site, observation.update.tensors) == span.rank


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_more_tokens_than_dimensions_take_little_work(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that leaves the spans nothing to exclude: 140 tokens in 64 dimensions."""
    monkeypatch.setattr(dager, "WORK", 0.002)
    monkeypatch.setattr(dager, "DECODER_WORK", 0.02)
    sentences = [[(7 * n + 3 * i) % 38 + 2 for i in range(18)] for n in range(7)]
    efforts: list[Effort] = []

    def made(*arguments: Any, **named: Any) -> Effort:
        efforts.append(Effort(*arguments, **named))
        return efforts[-1]

    monkeypatch.setattr(dager, "Effort", made)
    answer = Dager().recover(observe(kind, sentences)[0])
    assert answer.sentences
    assert answer.note.startswith("The work was done.")
    assert efforts[0].spent < 2 * 1e9 * (0.02 if kind == "llama" else 0.002)


@pytest.mark.parametrize("kind", ["bert", "distilbert", "mpnet"])
def test_what_was_read_is_taken_out_as_if_it_had_not_been_there(kind: str) -> None:
    """What is left is the gradient of the others, and the label of the one was found."""
    left, ids = peel(kind, 1)
    assert left is not None
    assert left.observation.batch_size == 2
    public = left.observation.public
    client = Client(public.model, public.objective, public.roles, torch.Generator())
    kept = ids[[0, 2]]  # both of class 0
    batch = Batch(kept, (kept != ids[0, -1]).long(), torch.zeros(2, dtype=torch.long))
    expected = client.gradient(batch, list(left.observation.update.tensors))
    for name, tensor in left.observation.update.tensors.items():
        torch.testing.assert_close(tensor, expected[name] * 2 / 3, rtol=1e-3, atol=1e-6)


def test_what_does_not_lower_the_rank_is_left_where_it_is() -> None:
    """As with dropout, where the public model's gradient is not the client's."""
    assert peel("bert", 1, scale=1.3)[0] is None


def test_a_faint_direction_is_no_rounding() -> None:
    """Singular values of a batch of `mini/rotten-tomatoes` whose last token is faint."""
    values = torch.tensor([1.0, 0.1, 0.01, 4e-3, 5e-6, *(6e-8 / n for n in range(1, 4))])
    assert widest_gap(values, 3e-8, 7.6e-6) == 5
    assert widest_gap(torch.tensor([1.0, 0.1, 0.01, 6e-8, 5e-8]), 3e-8, 7.6e-6) == 3
