"""The defender's half of a task, with what is asked for at every token looked up once.

Apart from `private`, whose code every result depends on.
"""

from __future__ import annotations

from functools import cached_property

from benchmark.suites import LoadedTask, Task
from tasks.private import PreparedTask


class RememberingTask(PreparedTask):
    """Tokenizers of transformers gather their special tokens anew each time."""

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that no metric counts."""
        return super().special_ids


def load(task: Task) -> LoadedTask:
    """The defender's side of a task."""
    return RememberingTask(task)
