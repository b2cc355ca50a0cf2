"""The corpora of the `mini` suite: text written for this project by seeded grammars.

The names tell which real corpus each stands in for; no sentence is copied from one, and the
people in them are invented.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from tasks.corpora.base import Row, Split
from tasks.corpora.builtin.expand import Writer, capitalize, polish, tokenize, unmark
from tasks.corpora.builtin.grammar import FOLDER, read_grammar
from tasks.corpora.builtin.recipes import RECIPES, Recipe

NAMES: tuple[str, ...] = tuple(RECIPES)


def load(name: str, split: Split) -> tuple[Row, ...]:
    """Return a split of a built-in corpus; the same rows on every machine."""
    return _splits(name)[split]


def label_names(name: str) -> tuple[str, ...]:
    """Return what the labels of a corpus mean, or nothing for unlabeled text."""
    return _recipe(name).labels


def digest(name: str) -> str:
    """Fingerprint everything that a corpus is generated from, without generating it."""
    sources = [*sorted(Path(__file__).parent.glob("*.py"))]
    sources += [FOLDER / file for file in _recipe(name).files]
    fingerprint = hashlib.sha256(name.encode())
    for source in sources:
        fingerprint.update(hashlib.sha256(source.read_bytes()).digest())
    return fingerprint.hexdigest()


def _recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise KeyError(f"no built-in corpus {name!r}; there are {', '.join(NAMES)}")
    return RECIPES[name]


@cache
def _splits(name: str) -> dict[Split, tuple[Row, ...]]:
    """Write a whole corpus as one stream without repetitions, and cut it."""
    recipe = _recipe(name)
    rows = _distinct(recipe, _rows(recipe, name))
    return {split: tuple(islice(rows, size)) for split, size in recipe.sizes.items()}


def _distinct(recipe: Recipe, rows: Iterator[Row]) -> Iterator[Row]:
    """Drop rows whose text came before, and those that are too short or too long."""
    fewest, most = recipe.words
    seen: set[str] = set()
    for row in rows:
        folded = row.text.casefold()
        if folded not in seen and fewest <= len(folded.split()) <= most:
            seen.add(folded)
            yield row


def _rows(recipe: Recipe, seed: str) -> Iterator[Row]:
    """Write rows for ever."""
    writer = Writer(read_grammar(recipe.files), seed)
    while True:
        label = writer.pick(len(recipe.keys))
        key = recipe.keys[label]
        source = None
        if recipe.layout == "rule":
            marked = writer.sentence(key)
        elif recipe.layout == "columns":
            marked = writer.columns(key)[key]
        else:
            sides = writer.columns(key)
            marked, source = sides["en"], unmark(capitalize(sides["de"]))[0]
        text, entities = unmark(_STYLES[recipe.style](polish(marked)))
        yield Row(text, label if recipe.labels else None, source, entities)


def _as_is(marked: str) -> str:
    return marked


_STYLES = {"cased": _as_is, "tokenized": tokenize}
