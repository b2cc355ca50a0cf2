"""Submissions with one fault each, as text: what is wrong with it, and which check finds it.

The line that a finding has to name ends in `# HERE`.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

from benchmark.conformance.trials import TrialLimits

HEAD = """\
from __future__ import annotations

import random
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import torch

from benchmark.spec import Attack, Defense, Knowledge, Parameter, Recovery, Role, Unsupported


"""
ATTACK = """\
class Faulty(Attack):
    name = "{name}"
    summary = "Is wrong in one way."
    objectives = frozenset({{"classification"}})
    observes = frozenset({{Role.WORD_EMBEDDING}})

    def right(self, observation):
        rows = observation.gradient(Role.WORD_EMBEDDING).norm(dim=1)
        return Recovery(token_types=frozenset(rows.nonzero().flatten().tolist()))

"""
DEFENSE = """\
class Faulty(Defense):
    name = "{name}"
    summary = "Is wrong in one way."

"""


@dataclass(frozen=True)
class Fault:
    """One fault, the check that has to find it, and nothing else has to be found."""

    name: str
    check: str
    body: str
    """Of the class; lines that begin with `class` replace it."""
    kind: str = "attack"
    limits: TrialLimits | None = None
    warning: bool = False

    def text(self) -> str:
        """The whole file."""
        body = textwrap.dedent(self.body).lstrip("\n")
        if body.startswith("class"):
            return HEAD + body
        base = ATTACK if self.kind == "attack" else DEFENSE
        return HEAD + base.format(name=self.name) + textwrap.indent(body, "    ")

    def write(self, folder: Path) -> Path:
        """Put the file where submissions of its kind lie."""
        path = folder / f"{self.kind}s" / f"{self.name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text())
        return path

    @property
    def line(self) -> int | None:
        """The line that has to be named, where one is marked."""
        lines = self.text().splitlines()
        return next((n for n, line in enumerate(lines, 1) if line.endswith("# HERE")), None)


FAULTS = [
    Fault("tosses_coins", "same seed", """
        def recover(self, observation):  # HERE
            return Recovery(token_types=frozenset({random.randrange(500)}))
    """),
    Fault("wrong_type", "contract", """
        def recover(self, observation):  # HERE
            return [1, 2, 3]
    """),
    Fault("not_ids", "contract", """
        def recover(self, observation):  # HERE
            return Recovery(sentences=[["a", "word"]])
    """),
    Fault("id_out_of_range", "contract", """
        def recover(self, observation):  # HERE
            return Recovery(token_types=frozenset({10**6}))
    """),
    Fault("undeclared_lengths", "knowledge", """
        def recover(self, observation):
            longest = max(observation.lengths)  # HERE
            return self.right(observation)
    """),
    Fault("cannot_do_without", "knowledge", """
        uses = frozenset({Knowledge.LENGTHS})

        def recover(self, observation):
            longest = max(observation.lengths)  # HERE
            return self.right(observation)
    """),
    Fault("cpu_tensor", "device", """
        def recover(self, observation):
            rows = observation.gradient(Role.WORD_EMBEDDING)
            weighted = rows * torch.ones(rows.shape)  # HERE
            return self.right(observation)
    """),
    Fault("cpu_generator", "device", """
        def recover(self, observation):
            generator = torch.Generator().manual_seed(observation.seed)
            device = observation.public.device
            torch.randn(3, generator=generator, device=device)  # HERE
            return self.right(observation)
    """),
    Fault("calls_home", "network", """
        def recover(self, observation):
            try:
                socket.create_connection(("192.0.2.1", 80), timeout=1)  # HERE
            except OSError:
                pass
            return self.right(observation)
    """),
    Fault("starts_programs", "network", """
        def recover(self, observation):
            try:
                subprocess.run(["true"])  # HERE
            except OSError:
                pass
            return self.right(observation)
    """),
    Fault("writes_files", "files", """
        def recover(self, observation):
            try:
                Path(__file__).with_suffix(".txt").write_text("seen")  # HERE
            except OSError:
                pass
            return self.right(observation)
    """),
    Fault("reads_files", "files", """
        def recover(self, observation):
            try:
                Path("/home/somebody/notes.txt").read_text()  # HERE
            except OSError:
                pass
            return self.right(observation)
    """),
    Fault("too_slow", "time", """
        def recover(self, observation):  # HERE
            time.sleep(3600)
    """, limits=TrialLimits(seconds=3.0)),
    Fault("too_large", "memory", """
        def recover(self, observation):  # HERE
            torch.ones(1_700_000_000, dtype=torch.uint8)
            return self.right(observation)
    """, limits=TrialLimits(seconds=300.0, memory_mb=1600.0)),
    Fault("wrong_metadata", "metadata", """
        class Faulty(Attack):
            name = "wrong_metadata"
            summary = "Has no end"
            objectives = frozenset({"classification", "poetry"})

            def recover(self, observation):
                return Recovery(token_types=frozenset())
    """),
    Fault("out_of_range", "parameters", """
        class Faulty(Attack):
            name = "out_of_range"
            summary = "Has a variant beyond its bounds."
            parameters = {"steps": Parameter(3, "Steps.", low=1, high=5)}
            variants = {
                "out_of_range_long": {"steps": 50},  # HERE
            }

            def recover(self, observation):
                return Recovery(token_types=frozenset())
    """),
    Fault("remembers", "order", """
        before = frozenset()

        def recover(self, observation):  # HERE
            found, self.before = self.before, self.right(observation).token_types
            return Recovery(token_types=found)
    """),
    Fault("joint_otherwise", "recover_many", """
        def recover(self, observation):
            return self.right(observation)

        def recover_many(self, observations):  # HERE
            return [Recovery(token_types=frozenset({1})) for _ in observations]
    """),
    Fault("claims_too_much", "objectives", """
        objectives = frozenset({"classification", "translation"})  # HERE

        def recover(self, observation):
            if observation.public.objective.name == "translation":
                raise Unsupported("it does not read translations")
            return self.right(observation)
    """),
    Fault("crashes", "runs", """
        def recover(self, observation):
            return 1 / 0  # HERE
    """),
    Fault("looks_inside", "loads", """
        def recover(self, observation):
            from benchmark.suites import Task  # HERE

            return self.right(observation)
    """),
    Fault("no_syntax", "loads", """
        def recover(self, observation:  # HERE
            return self.right(observation)
    """),
    Fault("knows_nothing", "baselines", """
        def recover(self, observation):  # HERE
            return Recovery(token_types=frozenset({7}))
    """, warning=True),
    Fault("tosses_noise", "same seed", """
        def transform(self, update, generator):  # HERE
            shift = time.time_ns() % 1000 / 1000
            return replace(update, tensors={n: t + shift for n, t in update.tensors.items()})
    """, kind="defense"),
    Fault("sends_nan", "contract", """
        def transform(self, update, generator):  # HERE
            return replace(update, tensors={n: t / 0 for n, t in update.tensors.items()})
    """, kind="defense"),
    Fault("cpu_noise", "device", """
        def transform(self, update, generator):
            tensors = {
                n: t + 1e-3 * torch.randn(t.shape)  # HERE
                for n, t in update.tensors.items()
            }
            return replace(update, tensors=tensors)
    """, kind="defense"),
    Fault("keeps_batches", "order", """
        seen = 0

        def transform(self, update, generator):  # HERE
            self.seen += 1
            return replace(update, tensors={n: t * self.seen for n, t in update.tensors.items()})
    """, kind="defense"),
    Fault("does_nothing", "baselines", """
        def transform(self, update, generator):  # HERE
            return update
    """, kind="defense", warning=True),
]  # fmt: skip
