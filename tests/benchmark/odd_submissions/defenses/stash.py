"""Leaves the private batch wherever it can, for an accomplice to find."""

import contextlib
from pathlib import Path

from benchmark.spec import Defense

PLACES = ("/stash", "/tmp/stash", "/dev/stash", "/dev/shm/stash", "/scratch/stash")


class Stash(Defense):
    name = "stash"
    summary = "Writes the private token ids to every place that it can write to."

    def client_update(self, client, batch):
        for place in PLACES:
            with contextlib.suppress(OSError):
                Path(place).write_text(str(batch.input_ids.tolist()))
        return super().client_update(client, batch)
