"""From a corpus reference `<source>:<name>` to rows: built-in, from local files or from the hub."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path

from benchmark.errors import UserError, unknown_name
from benchmark.paths import data_directory
from tasks.corpora import builtin, own
from tasks.corpora.base import Row, Split
from tasks.corpora.cutting import Layout, cut
from tasks.hub_lock import LOCKED, pinned_commit

_RECIPE = "2"
"""Changes when rows are read or cut differently, so that old snapshots are not taken for new."""

_HUB_ROWS = 200_000
"""Rows read of a hub split at most: what FILM trains on, and what memory holds of WikiText-103."""


CORPORA: Mapping[str, Layout] = {
    "cola": Layout("cola", "validation", hub=("nyu-mll/glue/cola",)),
    "sst2": Layout(
        "sst2", "validation", phrases=True, hub=("stanfordnlp/sst2", "nyu-mll/glue/sst2")
    ),
    "rotten-tomatoes": Layout(
        "rotten_tomatoes", by_class=True, hub=("cornell-movie-review-data/rotten_tomatoes",)
    ),
    "wikitext": Layout(
        "wikitext_sentences",
        articles=True,
        hub=("Salesforce/wikitext/wikitext-103-raw-v1", "Salesforce/wikitext/wikitext-2-raw-v1"),
    ),
    "enron": Layout("enron_sentences"),
    "imdb": Layout("imdb", by_class=True, hub=("stanfordnlp/imdb", "stanfordnlp/imdb/plain_text")),
    "agnews": Layout("ag_news", hub=("fancyzhx/ag_news",)),
    "20news": Layout("20newsgroups", by_class=True, hub=("SetFit/20_newsgroups",)),
    "iwslt": Layout("iwslt2017_de-en", hub=("IWSLT/iwslt2017/iwslt2017-de-en",)),
}
"""Corpora by the name that follows `data:`."""

_ON_THE_HUB = {name: layout for layout in CORPORA.values() for name in layout.hub}

# ---------------------------------------------------------------------------------- references


def load(reference: str, split: Split) -> tuple[Row, ...]:
    """Return a split of a corpus; the same rows on every machine that has the same files."""
    source, name = _parts(reference)
    if source == "builtin":
        return builtin.load(name, split)
    if source == "own":
        return own.load(name, split)
    read = partial(_hub_rows, name) if source == "hub" else partial(_file_rows, name)
    return cut(reference, _layout(source, name), read)[split]


def digest(reference: str) -> str:
    """Fingerprint everything a corpus' rows depend on, without parsing it."""
    source, name = _parts(reference)
    if source == "builtin":
        return builtin.digest(name)
    if source == "own":
        return name  # which is a digest
    fingerprint = hashlib.sha256(f"{_RECIPE} {source}:{name} {_layout(source, name)}".encode())
    if source == "data":  # a hub reference pins its content by the commit
        for path in map(partial(_path, name), ("train", CORPORA[name].held_out)):
            fingerprint.update(hashlib.sha256(path.read_bytes()).digest())
    return fingerprint.hexdigest()


def names() -> tuple[str, ...]:
    """Return the references that can be listed; any dataset of the hub can be named besides."""
    return (*(f"builtin:{n}" for n in builtin.NAMES), *(f"data:{n}" for n in CORPORA))


def _parts(reference: str) -> tuple[str, str]:
    """Divide a reference into source and name, both known."""
    source, _, name = reference.partition(":")
    if source == "hub":
        name = _with_commit(name)
        _hub_parts(name)
    elif source != "own" and reference not in names():
        raise unknown_name("corpus", reference, names())
    return source, name


def _with_commit(name: str) -> str:
    """The name with the commit that it is locked to, where it asks for that."""
    dataset, _, revision = name.partition("@")
    if revision != LOCKED:
        return name
    repository = "/".join(dataset.split("/")[:2])
    return f"{dataset}@{pinned_commit('datasets', repository)}"


def _layout(source: str, name: str) -> Layout:
    return CORPORA[name] if source == "data" else _ON_THE_HUB.get(name.partition("@")[0], Layout())


# ---------------------------------------------------------------------------------------- rows


def _row(record: object) -> Row:
    """Read the columns that the files and the hub share; a ValueError says what is wrong."""
    if not isinstance(record, Mapping):
        raise ValueError("it is not an object")
    source = None
    text = record.get("text", record.get("sentence"))
    if isinstance(pair := record.get("translation"), Mapping):
        text, source = pair.get("en"), pair.get("de", 0)
    if not isinstance(text, str) or not isinstance(source, str | None):
        raise ValueError("it has no text, no sentence and no translation with de and en")
    label = record.get("label")
    if label is not None and type(label) is not int:
        raise ValueError("its label is not a whole number")
    for side in (text, source or ""):
        side.encode()  # lone surrogates pass JSON, but no tokenizer
    shown = None if label is None or label < 0 else label  # GLUE writes -1 for a hidden label
    return Row(text.strip(), shown, source.strip() if source else None)


# --------------------------------------------------------------------------------- local files


def _file_rows(name: str, part: str) -> Iterator[Row]:
    path = _path(name, part)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                if line.strip():
                    yield _row(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise UserError(
                    f"Line {number} of {path} cannot be read ({_reason(error)}); repair or "
                    "remove it."
                ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    return f"it is not JSON: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)


def _path(name: str, part: str) -> Path:
    layout, folder = CORPORA[name], data_directory()
    wanted = f"{layout.file}.train.jsonl and {layout.file}.{layout.held_out}.jsonl"
    where = f"set LEAKBOARD_DATA to a folder with {wanted} (docs/models.md describes the layout)."
    if folder is None:
        raise UserError(f"The corpus data:{name} is not part of the repository; {where}")
    if not folder.is_dir():
        raise UserError(f"LEAKBOARD_DATA names {folder}, which is not a folder; {where}")
    path = folder / f"{layout.file}.{part}.jsonl"
    if not path.is_file() or not os.access(path, os.R_OK):
        raise UserError(f"The corpus data:{name} needs {path}, which cannot be read; {where}")
    return path


# ------------------------------------------------------------------------------------- the hub


def _hub_parts(name: str) -> tuple[str, str | None, str]:
    """Divide `<owner>/<dataset>[/<config>]@<commit>`."""
    form = r"(\w[\w.-]*/\w[\w.-]*)(?:/([\w.-]+))?@([0-9a-f]{40})"
    match = re.fullmatch(form, name)
    if match is None:
        raise UserError(
            f"hub:{name} does not name a corpus on the hub; write it as "
            "hub:<owner>/<dataset>[/<config>]@<commit>, with all 40 digits of the commit, so that "
            "everyone measures the same text."
        )
    return match[1], match[2], match[3]


def _hub_rows(name: str, part: str) -> Iterator[Row]:
    rows = map(_row, islice(_hub_records(name, part), _HUB_ROWS))
    try:
        articles = _layout("hub", name).articles
        yield from chain.from_iterable(map(_sentences, rows)) if articles else rows
    except ValueError as error:
        raise UserError(f"A row of hub:{name}, {part} cannot be read ({error}).") from error


def _hub_records(name: str, part: str) -> Iterable[object]:
    import httpx
    from datasets import load_dataset
    from datasets.exceptions import DatasetNotFoundError, DatasetsError

    dataset, config, commit = _hub_parts(name)
    try:
        records: Iterable[object] = load_dataset(dataset, config, split=part, revision=commit)
    except (ValueError, RuntimeError, DatasetsError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        unknown = isinstance(error, DatasetNotFoundError)
        what = "is not on the hub, or is closed to you" if unknown else "cannot be read"
        raise UserError(f"The {part} split of hub:{name} {what} ({reason[:200]}).") from error
    except (OSError, httpx.HTTPError) as error:
        raise UserError(
            f"The hub cannot be reached to fetch hub:{name}; connect to the network, or take the "
            "same corpus from local files as data:<name>."
        ) from error
    return records


def _sentences(paragraph: Row) -> Iterator[Row]:
    """Divide a WikiText line at its stand-alone full stops; headings and fragments are dropped."""
    if not paragraph.text.startswith("="):
        for text in re.split(r"(?<= [.?!]) (?=[A-Z\"'(])", paragraph.text):
            if len(text.split()) >= 5:
                yield Row(text.strip())
