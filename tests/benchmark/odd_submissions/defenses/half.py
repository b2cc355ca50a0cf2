"""Sends tensors of another type."""

from dataclasses import replace

from benchmark.spec import Defense


class Half(Defense):
    name = "half"
    summary = "Sends an update in half precision."

    def transform(self, update, generator):
        return replace(update, tensors={n: t.bfloat16() for n, t in update.tensors.items()})
