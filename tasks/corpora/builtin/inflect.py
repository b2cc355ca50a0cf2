"""English word endings and the article, enough for the built-in grammars."""

import re

_IRREGULAR = {
    "s": {
        "man": "men", "woman": "women", "child": "children", "person": "people",
        "series": "series", "species": "species", "wife": "wives", "life": "lives",
        "city": "cities", "be": "is", "have": "has", "do": "does", "go": "goes",
        "shelf": "shelves", "leaf": "leaves", "wolf": "wolves", "foot": "feet",
        "sheep": "sheep", "deer": "deer", "aircraft": "aircraft", "crew": "crews",
    },
    "ed": {
        "win": "won", "lose": "lost", "build": "built", "begin": "began", "write": "wrote",
        "sell": "sold", "buy": "bought", "say": "said", "send": "sent", "find": "found",
        "make": "made", "see": "saw", "read": "read", "break": "broke", "cut": "cut",
        "beat": "beat", "hit": "hit", "give": "gave", "take": "took", "leave": "left",
        "hold": "held", "lead": "led", "pay": "paid", "run": "ran", "keep": "kept",
        "meet": "met", "draw": "drew", "know": "knew", "grow": "grew", "stop": "stopped",
        "plan": "planned", "drop": "dropped", "refer": "referred", "sing": "sang",
        "hide": "hid", "steal": "stole", "catch": "caught", "teach": "taught",
    },
    "ing": {
        "run": "running", "win": "winning", "begin": "beginning", "plan": "planning",
        "cut": "cutting", "stop": "stopping", "drop": "dropping", "hit": "hitting",
        "refer": "referring", "swim": "swimming", "sit": "sitting", "see": "seeing",
    },
    "ly": {"good": "well", "true": "truly", "whole": "wholly"},
}  # fmt: skip

_SILENT_H = ("hour", "honest", "honor", "heir")
_CONSONANT_SOUND = ("one", "once", "use", "usu", "eu", "ubi", "uni", "us ", "uk", "un ")
_VOWEL_AFTER_ALL = ("unin", "unim", "unid")
_ACRONYM = re.compile(r"[FHLMNRSX][A-Z]+\b")
_EIGHT_OR_ELEVEN = re.compile(r"8|1[18](?!\d)")


def inflect(phrase: str, ending: str) -> str:
    """Add an ending to the last word of a phrase."""
    head, space, word = phrase.rpartition(" ")
    if word in _IRREGULAR.get(ending, {}):
        return head + space + _IRREGULAR[ending][word]
    return head + space + _regular(word, ending)


def _regular(word: str, ending: str) -> str:
    """Spell a regular plural, third person, past, gerund or adverb."""
    consonant_y = word.endswith("y") and word[-2:-1] not in "aeiou"
    if ending == "s":
        if consonant_y:
            return word[:-1] + "ies"
        return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")
    if ending == "ed":
        if consonant_y:
            return word[:-1] + "ied"
        return word + ("d" if word.endswith("e") else "ed")
    if ending == "ing":
        return (word[:-1] if word.endswith("e") and not word.endswith("ee") else word) + "ing"
    if ending == "ly":
        return _adverb(word, consonant_y)
    raise ValueError(f"unknown ending +{ending}")


def _adverb(word: str, consonant_y: bool) -> str:
    """Spell the adverb of an adjective."""
    if consonant_y:
        return word[:-1] + "ily"
    if word.endswith("le"):
        return word[:-1] + "y"
    return word + ("ally" if word.endswith("ic") else "ly")


def takes_an(following: str) -> bool:
    """Whether the text after an indefinite article starts with a vowel sound."""
    if _ACRONYM.match(following) or _EIGHT_OR_ELEVEN.match(following):
        return True
    start = following[:6].lower() + " "
    if start.startswith(_SILENT_H) or start.startswith(_VOWEL_AFTER_ALL):
        return True
    return start[0] in "aeiou" and not start.startswith(_CONSONANT_SOUND)
