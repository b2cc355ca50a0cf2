"""Which grammar, labels, style and sizes make each built-in corpus."""

from dataclasses import dataclass
from typing import Literal

from tasks.corpora.base import Split

Sizes = dict[Split, int]

_LANGUAGE: Sizes = {"private": 1000, "public": 6000, "test": 500}
_CLASSIFICATION: Sizes = {"private": 1000, "public": 5000, "test": 1000}
_FEDERATED: Sizes = {"private": 4000, "public": 2000, "test": 1000}


@dataclass(frozen=True)
class Recipe:
    """How one corpus is written."""

    files: tuple[str, ...]
    sizes: Sizes
    words: tuple[int, int]
    """Fewest and most words of a row; what is shorter or longer is thrown away."""
    keys: tuple[str, ...] = ("",)
    """What `%` stands for in the grammar, one per label."""
    labels: tuple[str, ...] = ()
    """Display names of the labels, in the order of `keys`; empty for unlabeled text."""
    style: Literal["cased", "tokenized"] = "cased"
    layout: Literal["rule", "columns", "pair"] = "rule"
    """`columns`: each label has its column; `pair`: the columns `en` and `de` are a pair."""
    part: int | None = None
    """Where two corpora are written by one grammar: which half of its sentences is this one's."""

    @property
    def grammar(self) -> frozenset[str]:
        """The files of its genre; corpora that have one in common are relatives."""
        return frozenset(self.files) - {"lexicon.txt"}


_SENTIMENT = ("bad", "good")
_SENTIMENT_LABELS = ("negative", "positive")
_NEWS = ("world", "sports", "business", "science")
_NEWS_LABELS = ("World", "Sports", "Business", "Sci/Tech")
_REVIEWS = ("lexicon.txt", "reviews.txt")
_GROUPS = {
    "atheism": "alt.atheism",
    "graphics": "comp.graphics",
    "windows": "comp.os.ms-windows.misc",
    "ibm": "comp.sys.ibm.pc.hardware",
    "mac": "comp.sys.mac.hardware",
    "xwindow": "comp.windows.x",
    "sale": "misc.forsale",
    "autos": "rec.autos",
    "motorcycles": "rec.motorcycles",
    "baseball": "rec.sport.baseball",
    "hockey": "rec.sport.hockey",
    "crypt": "sci.crypt",
    "electronics": "sci.electronics",
    "medicine": "sci.med",
    "space": "sci.space",
    "christian": "soc.religion.christian",
    "guns": "talk.politics.guns",
    "mideast": "talk.politics.mideast",
    "politics": "talk.politics.misc",
    "religion": "talk.religion.misc",
}

RECIPES = {
    "wikitext": Recipe(("lexicon.txt", "wikitext.txt"), _LANGUAGE, (8, 28)),
    "enron": Recipe(("lexicon.txt", "enron.txt"), _LANGUAGE, (6, 24)),
    "imdb": Recipe((*_REVIEWS, "imdb.txt"), _LANGUAGE, (7, 25), _SENTIMENT),
    "agnews-lm": Recipe(("lexicon.txt", "agnews.txt"), _LANGUAGE, (8, 28), _NEWS, part=0),
    "cola": Recipe(
        ("lexicon.txt", "cola.txt"), _CLASSIFICATION, (4, 13), _SENTIMENT,
        ("unacceptable", "acceptable"), layout="columns",
    ),
    "sst2": Recipe(
        (*_REVIEWS, "sst2.txt"), _CLASSIFICATION, (3, 16), _SENTIMENT, _SENTIMENT_LABELS,
        "tokenized", part=0,
    ),
    "rotten-tomatoes": Recipe(
        (*_REVIEWS, "rotten-tomatoes.txt"), _CLASSIFICATION, (10, 25), _SENTIMENT,
        _SENTIMENT_LABELS, "tokenized",
    ),
    "iwslt": Recipe(
        ("lexicon.txt", "iwslt.txt", "iwslt-clauses.txt"), _LANGUAGE, (4, 26), layout="pair",
    ),
    "agnews-fl": Recipe(
        ("lexicon.txt", "agnews.txt"), _FEDERATED, (12, 30), _NEWS, _NEWS_LABELS, part=1,
    ),
    "20news-fl": Recipe(
        ("lexicon.txt", "newsgroups.txt", "newsgroup-topics.txt"), _FEDERATED, (15, 50),
        tuple(_GROUPS), tuple(_GROUPS.values()),
    ),
    "sst2-fl": Recipe(
        (*_REVIEWS, "sst2.txt"), _FEDERATED, (3, 12), _SENTIMENT, _SENTIMENT_LABELS, "tokenized",
        part=1,
    ),
}  # fmt: skip
