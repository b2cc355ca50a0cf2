"""Make the builtin models: `python -m tasks.models.train [--only NAME] [--data DIR]`.

Everything is seeded and runs on one thread, so that sums are always taken in the same order.
About half an hour on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmark.errors import UserError, unknown_name
from benchmark.paths import data_directory
from tasks.models.pretraining import encoders, language, translation
from tasks.models.pretraining.text import RealText
from tasks.models.pretraining.workshop import Trained, Workshop, store
from tasks.models.resolve import WEIGHTS

RECIPES: dict[str, Callable[[Workshop], Trained]] = {
    "gpt2-pretrained": language.pretrained,
    "gpt2-finetuned": language.finetuned,
    "gpt2-halfway": language.halfway,
    "gpt2-memorized": language.memorized,
    "prior-gpt2": language.prior,
    "bert-pretrained": encoders.bert_pretrained,
    "marian-scratch": translation.scratch,
    "marian-finetuned": translation.finetuned,
    "gpt2-scratch": language.scratch,
    "gpt2-tied": language.tied,
    "bert-cola": encoders.bert_cola,
    "bilstm": encoders.bilstm,
    "distilbert": encoders.distilbert,
}
"""In an order where a model comes after those that it continues or takes its tokenizer from."""


def main(arguments: list[str] | None = None) -> int:
    """Train what is asked for; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    folder = options.data or data_directory()
    if folder is None:
        raise UserError("Training mixes in real text; give its folder with --data.")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    shop = Workshop(RealText(Path(folder)), options.output, options.share_of_steps)
    for name in options.only or RECIPES:
        if name not in RECIPES:
            raise unknown_name("builtin model", name, RECIPES)
        began = time.perf_counter()
        print(name, flush=True)
        trained = RECIPES[name](shop)
        store(name, trained, options.output)
        for score in trained.scores:
            print(f"  {score.corpus} {score.metric}: {score.trained:.3f}"
                  f" (untrained {score.untrained:.3f})")  # fmt: skip
        print(f"  {time.perf_counter() - began:.0f} s", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", action="append", metavar="NAME", help="this model; repeatable")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the folder of real corpora")
    parser.add_argument("--output", type=Path, default=WEIGHTS, metavar="DIR")
    parser.add_argument(
        "--share-of-steps", type=float, default=1.0, metavar="X",
        help="take only this part of the steps, to try things out",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
