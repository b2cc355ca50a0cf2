"""Opening, completing and describing models; the committed weights; the priors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmark.errors import UserError
from benchmark.spec import Role
from benchmark.suites import Task
from tasks.corpora import builtin
from tasks.models import catalog
from tasks.models.loading import open_model, roles
from tasks.models.materialize import builtin_names, locate, materialize, model_digest
from tasks.models.pretraining.measure import perplexity
from tasks.models.priors import open_prior, self_prior
from tasks.models.tokenizers import open_tokenizer
from tasks.models.train import RECIPES
from tasks.objectives import OBJECTIVES

pytestmark = pytest.mark.usefixtures("one_thread")

OBJECTIVE = {"gpt2": "causal-lm", "prior": "causal-lm", "marian": "translation"}
BODIES = frozenset({"bert-pretrained", "distilbert", "bilstm"})


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tiny matrices gain nothing from more threads, and lose much where cores are shared."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKBOARD_CACHE", str(tmp_path_factory.getbasetemp() / "models-cache"))


def task(model: str, head: str = "fresh", **changes: object) -> Task:
    """A classification task over a builtin body, or what the changes make of it."""
    base = Task(
        name="mini/test", family="classification", summary="", corpus="builtin:cola",
        model=model, objective="classification", head="fresh", labels=2, head_seed=3,
    )  # fmt: skip
    return replace(base, head=head, **changes)  # type: ignore[arg-type]


def builtin_task(name: str) -> Task:
    """The task that a committed model is made for."""
    objective = OBJECTIVE.get(name.partition("-")[0], "classification")
    tied = name in {"gpt2-tied", "prior-gpt2"}
    head = "fresh" if name in BODIES else "trained"
    return task(f"builtin:{name}", head, objective=objective, tied=tied)


# -------------------------------------------------------------------------------- every model


def test_all_recipes_are_committed_and_small() -> None:
    assert set(builtin_names()) == set(RECIPES)
    assert sum(info.size_mb for info in catalog.models()) <= 19


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_training_helped(name: str) -> None:
    for corpus, metric, trained, untrained in catalog.model_info(name).scores:
        better = trained < untrained if "perplexity" in metric else trained > untrained
        assert better, f"{name} on {corpus}: {metric} {trained} against {untrained}"


EXPECTED_ROLES = {
    "gpt2": ("transformer.wte.weight", "lm_head.weight", "transformer.wpe.weight"),
    "gpt2-tied": ("transformer.wte.weight", "transformer.wte.weight", "transformer.wpe.weight"),
    "bert": (
        "bert.embeddings.word_embeddings.weight", "classifier.weight",
        "bert.embeddings.position_embeddings.weight",
    ),
    "distilbert": (
        "distilbert.embeddings.word_embeddings.weight", "classifier.weight",
        "distilbert.embeddings.position_embeddings.weight",
    ),
    "bilstm": ("bilstm.embed_tokens.weight", "classifier.weight", None),
    "marian": ("model.decoder.embed_tokens.weight", "lm_head.weight", None),
}  # fmt: skip
EXPECTED_ROLES["prior-gpt2"] = EXPECTED_ROLES["gpt2-tied"]


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_models_open_with_their_roles(name: str) -> None:
    wanted = builtin_task(name)
    model, tokenizer = open_model(materialize(wanted), wanted.objective, "float64", "cpu")
    found = roles(model)
    word, output, position = EXPECTED_ROLES.get(name) or EXPECTED_ROLES[name.partition("-")[0]]
    names = {Role.WORD_EMBEDDING: word, Role.OUTPUT: output, Role.POSITION_EMBEDDING: position}
    assert found.names == {role: path for role, path in names.items() if path is not None}
    assert found.tied == wanted.tied == catalog.model_info(name).tied
    assert not model.training
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert all(p.requires_grad for p in model.parameters())
    assert model.get_parameter(word).shape[0] == len(tokenizer)
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    ("model", "corpora"),
    [
        ("gpt2-finetuned", ("wikitext", "imdb")),
        ("bert-pretrained", ("cola", "20news-fl")),
        ("marian-finetuned", ("iwslt",)),
    ],
)
def test_tokenizers_give_text_back(model: str, corpora: tuple[str, ...]) -> None:
    tokenizer = open_tokenizer(locate(f"builtin:{model}"))
    for corpus in corpora:
        for row in builtin.load(corpus, "test")[:100]:
            for text in filter(None, (row.text, row.source)):
                ids = tokenizer.encode(text)
                assert ids.count(tokenizer.unk_token_id or -1) == 0
                found = tokenizer.decode(ids, skip_special_tokens=True)
                if model == "bert-pretrained":  # lower-cased, blanks round punctuation lost
                    found, text = (str(t).lower().replace(" ", "") for t in (found, text))
                assert found == text


@pytest.mark.parametrize(
    ("name", "corpus"), [("gpt2-finetuned", "wikitext"), ("prior-gpt2", "cola")]
)
def test_a_slice_of_the_test_split_confirms_the_metrics(name: str, corpus: str) -> None:
    model, tokenizer = open_model(locate(f"builtin:{name}"), "causal-lm", "float32", "cpu")
    texts = [row.text for row in builtin.load(corpus, "test")[:200]]
    (stated,) = (t for c, _, t, _ in catalog.model_info(name).scores if c == corpus)
    assert perplexity(model, tokenizer, texts) == pytest.approx(stated, rel=0.15)


# ----------------------------------------------------------------------------- where they come from


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("gpt2", "is not a model reference"),
        ("builtin:gpt2-finetund", "did you mean gpt2-finetuned"),
        ("dir:/nowhere/at/all", "is not a model folder"),
        ("hub:some/model", "does not pin a revision"),
        ("hub:a b/c@main", "is not the name of a hub repository"),
    ],
)
def test_wrong_references_get_one_sentence(reference: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        locate(reference)
    assert "\n" not in str(caught.value)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache in the layout of huggingface_hub, without network."""
    import huggingface_hub.constants as constants

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


REVISION = "0123456789abcdef0123456789abcdef01234567"


def test_the_hub_cache_is_read_offline(hub: Path) -> None:
    snapshot = hub / "models--some--model" / "snapshots" / REVISION
    shutil.copytree(locate("builtin:gpt2-tied"), snapshot)
    tag = hub / "models--some--model" / "refs" / "v1"
    tag.parent.mkdir()
    tag.write_text(REVISION)
    assert locate("hub:some/model@v1") == locate(f"hub:some/model@{REVISION}")
    found = locate(f"hub:some/model@{REVISION}")
    assert found.resolve() == snapshot.resolve()
    wanted = task(f"hub:some/model@{REVISION}", "trained", objective="causal-lm", tied=True)
    assert materialize(wanted) == found
    open_model(found, "causal-lm", "float32", "cpu")


def test_what_the_hub_cache_lacks_is_said(hub: Path) -> None:
    with pytest.raises(UserError, match="not in the hub cache"):
        locate(f"hub:other/model@{REVISION}")


def test_a_hub_model_without_safetensors_is_refused(hub: Path) -> None:
    snapshot = hub / "models--pickled--model" / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(UserError):
        locate(f"hub:pickled/model@{REVISION}")


def test_an_unreachable_hub_is_one_sentence(monkeypatch: pytest.MonkeyPatch, hub: Path) -> None:
    import huggingface_hub

    def lost(*_: object, **options: object) -> str:
        if options.get("local_files_only"):
            raise huggingface_hub.errors.LocalEntryNotFoundError("not here")
        raise ConnectionError("no route")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lost)
    with pytest.raises(UserError, match="hub cannot be reached"):
        locate(f"hub:some/model@{REVISION}")


# -------------------------------------------------------------------------------- fresh heads


def head_of(folder: Path) -> torch.Tensor:
    model, _ = open_model(folder, "classification", "float32", "cpu")
    return model.get_parameter("classifier.weight").detach()


@pytest.mark.parametrize("name", sorted(BODIES))
def test_heads_depend_on_their_seed_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = task(f"builtin:{name}", labels=4)
    first = materialize(wanted)
    digest, written = model_digest(first), first.stat().st_mtime_ns
    assert materialize(wanted) == first
    assert first.stat().st_mtime_ns == written, "it is reused, not written again"

    torch.manual_seed(99)
    torch.set_num_threads(2)
    monkeypatch.setenv("LEAKBOARD_CACHE", str(tmp_path))
    again = materialize(wanted)
    torch.set_num_threads(1)
    assert again != first
    assert model_digest(again) == digest
    assert head_of(first).shape[0] == 4
    assert not torch.equal(head_of(first), head_of(materialize(replace(wanted, head_seed=4))))
    assert not list(tmp_path.glob("models/.*")), "no half-written folder is left behind"


def test_a_fresh_head_keeps_the_body() -> None:
    folder = materialize(task("builtin:bert-cola", labels=2))
    fresh, _ = open_model(folder, "classification", "float32", "cpu")
    source, _ = open_model(locate("builtin:bert-cola"), "classification", "float32", "cpu")
    for name, parameter in source.named_parameters():
        same = torch.equal(parameter, fresh.get_parameter(name))
        assert same == (not name.startswith("classifier.")), name


def test_a_trained_head_is_the_source_itself() -> None:
    assert materialize(task("builtin:bert-cola", "trained")) == locate("builtin:bert-cola")


@pytest.mark.parametrize(("name", "tied"), [("gpt2-tied", False), ("gpt2-scratch", True)])
def test_a_wrong_claim_about_tying_is_refused(name: str, tied: bool) -> None:
    wrong = task(f"builtin:{name}", "trained", objective="causal-lm", tied=tied)
    with pytest.raises(UserError, match=f"set tied={not tied}"):
        materialize(wrong)


# ------------------------------------------------------------------------------------- damage


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A model folder to damage."""
    return Path(shutil.copytree(locate("builtin:gpt2-tied"), tmp_path / "copy"))


def test_the_digest_notices_every_part(copy: Path) -> None:
    whole = model_digest(copy)
    assert whole == model_digest(locate("builtin:gpt2-tied"))
    (copy / "metrics.json").write_text("{}")
    assert model_digest(copy) == whole, "measurements are no part of the model"
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        content = (copy / name).read_bytes()
        (copy / name).write_bytes(content + b" ")
        assert model_digest(copy) != whole
        (copy / name).write_bytes(content)
    assert model_digest(copy) == whole


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_damaged_folders_are_refused_in_one_sentence(copy: Path, name: str, damage: str) -> None:
    content = (copy / name).read_bytes()
    (copy / name).unlink()
    if damage == "cut":
        (copy / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError) as caught:
        open_model(copy, "causal-lm", "float32", "cpu")
    assert "\n" not in str(caught.value)


def test_missing_tensors_are_not_drawn_at_random(copy: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(copy / "model.safetensors")
    del tensors["transformer.ln_f.weight"]
    save_file(tensors, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"transformer\.ln_f\.weight"):
        open_model(copy, "causal-lm", "float32", "cpu")


def test_a_body_without_a_head_is_refused() -> None:
    with pytest.raises(UserError, match="fresh head"):
        open_model(locate("builtin:bert-pretrained"), "classification", "float32", "cpu")


def test_pickles_are_never_read(copy: Path) -> None:
    weights = copy / "model.safetensors"
    torch.save({}, copy / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(UserError, match=r"no \.safetensors"):
        open_model(copy, "causal-lm", "float32", "cpu")


# ------------------------------------------------------------------------------------- priors


def test_the_prior_scores_like_a_plain_loop() -> None:
    model, tokenizer = open_model(locate("builtin:prior-gpt2"), "causal-lm", "float32", "cpu")
    prior = self_prior(model, tokenizer)
    texts = ["the film is good", "the students laughed near the church in the morning ."]
    sentences = [tokenizer.encode(t, add_special_tokens=False) for t in texts]
    found = prior.negative_log_likelihood(sentences)
    for text, value in zip(texts, found, strict=True):
        batch = OBJECTIVES["causal-lm"].encode(tokenizer, [text], None, None, 64)
        torch.testing.assert_close(value, OBJECTIVES["causal-lm"].loss(model, batch).detach())
    framed = prior.negative_log_likelihood([tokenizer.encode(t) for t in texts])
    torch.testing.assert_close(framed, found)


@pytest.mark.parametrize(("name", "shares"), [("prior-gpt2", True), ("gpt2-finetuned", False)])
def test_priors_prefer_sentences_to_salad(name: str, shares: bool) -> None:
    tokenizer = open_tokenizer(locate("builtin:bert-pretrained"))
    prior = open_prior(locate(f"builtin:{name}"), tokenizer, "cpu", shares)
    corpus = "cola" if shares else "wikitext"
    rows = [tokenizer.encode(r.text, add_special_tokens=False)
            for r in builtin.load(corpus, "test")[:40] if r.label != 0]  # fmt: skip
    straight = prior.negative_log_likelihood(rows)
    turned = prior.negative_log_likelihood([row[::-1] for row in rows])
    assert straight.shape == (len(rows),)
    assert (straight < turned).float().mean() > 0.9


@pytest.mark.parametrize(("name", "shares"), [("prior-gpt2", True), ("gpt2-finetuned", False)])
def test_samples_follow_their_seed(name: str, shares: bool) -> None:
    tokenizer = open_tokenizer(locate("builtin:bert-pretrained"))
    prior = open_prior(locate(f"builtin:{name}"), tokenizer, "cpu", shares)
    torch.manual_seed(0)
    first = prior.sample(20, 12, seed=5)
    torch.manual_seed(1)
    assert prior.sample(20, 12, seed=5) == first
    assert prior.sample(20, 12, seed=6) != first
    draws = [(20, 12, 5), (300, 3, 6), (1, 30, 7)]  # more than one forward pass holds
    assert prior.sample_many(draws) == [prior.sample(*draw) for draw in draws]
    assert len(first) == 20
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    for sentence in first:
        assert 1 <= len(sentence) <= 12
        assert not special & set(sentence)
        assert max(sentence) < len(tokenizer)


def test_cached_sampling_draws_from_the_model() -> None:
    """The frequencies of first tokens agree with the distribution after the start token."""
    model, tokenizer = open_model(locate("builtin:gpt2-finetuned"), "causal-lm", "float32", "cpu")
    first = [s[0] for s in self_prior(model, tokenizer).sample(512, 1, seed=0)]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[tokenizer.bos_token_id]])).logits[0, -1]
    chances = logits.softmax(0)
    for token in chances.topk(3).indices.tolist():
        assert first.count(token) / 512 == pytest.approx(float(chances[token]), abs=0.07)


# ------------------------------------------------------------------------------------ catalog


def test_the_catalog_agrees_with_the_files() -> None:
    for info in catalog.models():
        name = info.name.removeprefix("builtin:")
        folder = locate(info.name)
        files = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
        assert files | {"metrics.json", "model.sha256"} == {p.name for p in folder.iterdir()}
        assert json.loads((folder / "config.json").read_text())["dtype"] == "float16"
        assert info.vocabulary == len(open_tokenizer(folder))
        assert info.training_text
        assert info.licence
        assert name in RECIPES
