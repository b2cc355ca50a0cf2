"""Make the trained models of the `open` suite: `python -m tasks.models.train_open [--only NAME]`.

They are fine-tuned from installed weights on public rows of the corpora that LEAKBOARD_DATA names,
each once, into the cache. One thread, seeded: about two hours for all of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from benchmark.errors import UserError
from tasks.models.digests import model_digest
from tasks.models.finetuning.recipes import CHECKSUMS, RECIPES
from tasks.models.finetuning.store import find


def main(arguments: list[str] | None = None) -> int:
    """Train what is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", action="append", metavar="NAME", help="this model; repeatable")
    names = parser.parse_args(arguments).only or list(RECIPES)
    try:
        for name in names:
            find(name)  # every name is right before anything is trained
        for name in names:
            _make(name)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _make(name: str) -> None:
    from tasks.models.finetuning.training import make

    print(f"trained:{name}", flush=True)
    began = time.perf_counter()
    folder = make(name)
    test = json.loads((folder / "metrics.json").read_text("utf-8"))["test"]
    for when in ("before", "after"):
        print(f"  {when}: {', '.join(f'{k} {v:.3f}' for k, v in test[when].items())}")
    checksum = model_digest(folder)
    known = CHECKSUMS.get(name, checksum)
    same = "" if known == checksum else f"; the published results have {known}"
    print(f"  SHA-256 {checksum}{same}")
    print(f"  {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
