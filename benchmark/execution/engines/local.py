"""Local processes: as many slots on this machine as jobs may run at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import psutil

from benchmark.execution.engines.engine import Engine
from benchmark.execution.engines.slot import Slot
from benchmark.execution.engines.template import ServerTemplate, template_works
from benchmark.paths import cache_directory

SHARE_OF_MEMORY = 0.85
"""Of the memory that is free, what all jobs together may take."""


class LocalEngine(Engine):
    """As many slots as jobs may run at once, each in a thread of its own."""

    def __init__(self, devices: Sequence[str], threads: int, hidden: Sequence[Path] = ()) -> None:
        super().__init__(threads, hidden)
        self._devices = list(devices)
        self.base = cache_directory() / "jobs"
        """Of the cache as it is now: another may stand in for it when a worker starts."""
        self._slots: list[Slot] = []
        self._templates = {
            device: ServerTemplate(device, threads, self.base) for device in set(devices)
        }

    @property
    def devices(self) -> Sequence[str]:
        """One for each slot."""
        return self._devices

    def memory_mb(self) -> float:
        """An equal share for each slot."""
        return most_memory_mb() / len(self._devices)

    def _open(self) -> None:
        for device in self._devices:
            self._start_thread(partial(self._serve, device))

    def _abort(self) -> None:
        for template in self._templates.values():
            template.abort()
        for slot in list(self._slots):
            slot.stop()

    def _release(self) -> None:
        super()._release()
        for template in self._templates.values():
            template.close()

    def _serve(self, device: str) -> None:
        """Updates and recoveries never share a server: what a defense saw, no attack may find."""
        slots: dict[bool, Slot] = {}
        try:
            while (job := self._take(lambda waiting: 0)) is not None:
                private = job.work.sees_private
                if private not in slots:
                    template = self._templates[device] if template_works() else None
                    slots[private] = Slot(
                        device, self.threads, self._pass_on, self.base, self.hidden, template
                    )
                    self._slots.append(slots[private])
                self._news.put(slots[private].run(job))
        finally:
            for slot in slots.values():
                slot.close()


def most_memory_mb() -> float:
    """What all jobs on this machine together may take."""
    return float(psutil.virtual_memory().available) * SHARE_OF_MEMORY / 2**20
