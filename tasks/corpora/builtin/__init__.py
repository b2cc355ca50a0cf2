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
from tasks.corpora.builtin.grammar import FOLDER, Side, read_grammar
from tasks.corpora.builtin.recipes import RECIPES, Recipe
from tasks.corpora.overlap import Texts, words

NAMES: tuple[str, ...] = tuple(RECIPES)


@cache
def load(name: str, split: Split) -> tuple[Row, ...]:
    """Return a split of a built-in corpus; the same rows on every machine.

    Private and test rows are written in one set of sentence patterns, public rows in another:
    clients are tested on what they train for, and nobody else has seen anything like it.
    """
    recipe = _recipe(name)
    rows = _distinct(recipe, _rows(recipe, split, name))
    if split == "public":
        rows = _apart(rows, _private_texts(_relatives(name)))
    elif split == "test":
        private = Texts(row.text for row in load(name, "private"))
        rows = (row for row in rows if row.text not in private)
    return tuple(islice(rows, recipe.sizes[split]))


def label_names(name: str) -> tuple[str, ...]:
    """Return what the labels of a corpus mean, or nothing for unlabeled text."""
    return _recipe(name).labels


def digest(name: str) -> str:
    """Fingerprint everything that a corpus is generated from, without generating it."""
    sources = [*sorted(Path(__file__).parent.glob("*.py"))]
    files = {file for relative in _relatives(name) for file in RECIPES[relative].files}
    sources += [FOLDER / file for file in sorted(files)]
    fingerprint = hashlib.sha256(name.encode())
    for source in sources:
        fingerprint.update(hashlib.sha256(source.read_bytes()).digest())
    return fingerprint.hexdigest()


def _recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise KeyError(f"no built-in corpus {name!r}; there are {', '.join(NAMES)}")
    return RECIPES[name]


def _relatives(name: str) -> tuple[str, ...]:
    """The corpora that this one's text could be mistaken for, itself among them."""
    own = _recipe(name).grammar
    return tuple(other for other, recipe in RECIPES.items() if recipe.grammar & own)


@cache
def _private_texts(names: tuple[str, ...]) -> Texts:
    """The private rows of these corpora, read once: relatives ask for the same ones."""
    return Texts(row.text for name in names for row in load(name, "private"))


def _distinct(recipe: Recipe, rows: Iterator[Row]) -> Iterator[Row]:
    """Drop rows whose text came before, is another corpus', or is too short or too long."""
    fewest, most = recipe.words
    seen: set[str] = set()
    for row in rows:
        if not fewest <= len(row.text.split()) <= most:
            continue
        own = " ".join(words(row.text))
        if own not in seen and (recipe.part is None or recipe.part == _part(own)):
            seen.add(own)
            yield row


def _part(own: str) -> int:
    """Which half of a grammar's sentences this one belongs to, by its words alone."""
    return hashlib.sha256(own.encode()).digest()[0] % 2


def _apart(rows: Iterator[Row], private: Texts) -> Iterator[Row]:
    """Drop public rows that hold a private row of a relative, or stand inside one."""
    return (row for row in rows if not private.inside(row.text) and not private.around(row.text))


def _rows(recipe: Recipe, split: Split, name: str) -> Iterator[Row]:
    """Write rows for ever."""
    side: Side = "public" if split == "public" else "private"
    writer = Writer(read_grammar(recipe.files), side, f"{name} {split}")
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
