"""Sends NaN."""

from dataclasses import replace

from benchmark.spec import Defense


class Poison(Defense):
    name = "poison"
    summary = "Sends an update that is not finite."

    def transform(self, update, generator):
        return replace(update, tensors={n: t * float("nan") for n, t in update.tensors.items()})
