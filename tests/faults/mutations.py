"""Files and command lines with something wrong in them, drawn from a seed."""

from __future__ import annotations

import json
import random
from typing import Any

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**63, 2**70, 1e308, -1e308, float("nan"), float("inf"), "", "x",
    "\x1b[31m\n\u202e", "y" * 100_000, [], {}, [[[[[]]]]], {"a": {"b": []}}, "../../etc/passwd",
)  # fmt: skip
WORDS = (
    "", " ", ",", "x", "*", "[", "]", "[[", "a[b=c]", "cola", "mini/cola", "../x", "~nobody/x", "/",
    "/proc/self/mem", "/dev/null", "0", "-1", "1e308", "nan", "inf", "99999999999999999999", "1/2",
    "0/0", "none+none", "random", "random[", "random[x=1]", "none", "rougeL", "\x1b[31m", "é" * 300,
    "--", "-", "--json", "--csv", "--force", "--utility", "--help",
)  # fmt: skip
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("list",), ("describe",), ("show",), ("score",), ("compare",), ("merge",), ("table",),
    ("run", "--dry-run"), ("snapshots", "list"), ("import",), ("report",), ("site",),
    ("publish",), ("export", "--csv"), ("orderings", "--stored"), ("submit", "--plan-only"),
    ("verify",), ("audit", "--model", "x"), ("new", "--dir", "x"),
)  # fmt: skip
OPTIONS = (
    "--task", "--attack", "--defense", "--results", "--suite", "--seed", "--jobs", "--device",
    "--time-limit", "--memory-limit", "--metric", "--shard", "--out", "--submissions", "--site",
    "--model", "--text", "--timing", "--sample",
)  # fmt: skip


def mutated_file(content: bytes, seed: int) -> bytes:
    """The content of a file, damaged in one or several ways."""
    draw = random.Random(seed)
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        content = draw.choice((_flip, _cut, _drop, _repeat, _overwrite, _reshape))(content, draw)
    return content


def command_line(seed: int, folder: str) -> list[str]:
    """A command with options and values that may or may not belong to it."""
    draw = random.Random(seed)
    words = list(draw.choice(COMMANDS))
    for _ in range(draw.randrange(4)):
        words += [draw.choice(OPTIONS), draw.choice(WORDS)] if draw.random() < 0.7 else []
        words += [draw.choice(WORDS)] if draw.random() < 0.3 else []
    written = {"--out", "--site", "--dir"}
    return [
        f"{folder}/{seed}" if place and words[place - 1] in written else word
        for place, word in enumerate(words)
    ]


def _flip(content: bytes, draw: random.Random) -> bytes:
    if not content:
        return b"\0"
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def _cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _drop(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content) + 1)
    return content[:start] + content[start + draw.randrange(50) :]


def _repeat(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content) + 1)
    return content[:start] + content[start : start + 40] * draw.randrange(2, 20) + content[start:]


def _overwrite(content: bytes, draw: random.Random) -> bytes:
    return draw.choice((b"", b"\0" * 64, b"{", b"[" * 100_000, b"null", b"\xff\xfe", b'"text"'))


def _reshape(content: bytes, draw: random.Random) -> bytes:
    """Valid JSON with one value replaced, one key removed or one added."""
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        return _flip(content, draw)
    place = whole
    while isinstance(place, dict | list) and place:
        keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw.choice(keys)
        if not (isinstance(place[key], dict | list) and place[key]) or draw.random() < 0.2:
            break
        place = place[key]
    else:
        return content
    action = draw.random()
    if action < 0.2:
        del place[key]
    elif action < 0.3 and isinstance(place, dict):
        place["unknown"] = draw.choice(VALUES)
    else:
        place[key] = draw.choice(VALUES)
    return json.dumps(whole).encode()
