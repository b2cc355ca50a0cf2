"""A federated method whose clients fail, some of them or all."""

import time
from dataclasses import replace

import torch

from benchmark.spec import Defense, Parameter


class Unsteady(Defense):
    name = "unsteady"
    summary = "Clients with an even number of rows fail in the way that is asked for."
    parameters = {
        "how": Parameter(
            "raise", "what they do", choices=("raise", "nan", "shape", "sleep", "exit", "keep")
        ),
        "all": Parameter(False, "all clients fail"),
    }

    def adapt(self, client, rows):
        self.bad = len(rows.labels) % 2 == 0 or self.settings["all"]
        how = self.settings["how"]
        if self.bad and how == "raise":
            raise RuntimeError("this client is unsteady")
        if self.bad and how == "sleep":
            time.sleep(600)
        if self.bad and how == "exit":
            raise SystemExit(3)
        if self.bad and how == "keep":
            client.state["much"] = torch.full((4,), float("nan"))
        return rows

    def transform(self, update, generator):
        if self.bad and self.settings["how"] == "nan":
            return replace(update, tensors={n: t * float("nan") for n, t in update.tensors.items()})
        if self.bad and self.settings["how"] == "shape":
            return replace(update, tensors={n: t[:1] for n, t in update.tensors.items()})
        return update
