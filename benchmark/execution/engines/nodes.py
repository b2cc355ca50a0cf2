"""Nodes of a cluster: how many jobs each takes at once, and which node is refused."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmark.errors import UserError
from benchmark.execution import sandbox
from benchmark.execution.jobs import Job
from benchmark.execution.machine import Machine, this_machine
from benchmark.files import file_digest
from benchmark.paths import ROOT, cache_directory, submission_directories, submission_files

SHORTER = 0.5
"""A job whose model is at hand goes before one that is longer, but less than twice as long."""


@dataclass(frozen=True)
class Request:
    """What each job asks of a node."""

    device: str = "auto"
    cpus: int = 1
    memory_mb: float = 0.0
    """0: no particular amount."""
    weakest_sandbox: str = sandbox.BUBBLEWRAP

    def resources(self, on_gpu: bool) -> dict[str, float]:
        """As Ray wants it to be told of a slot."""
        asked: dict[str, float] = {"num_cpus": self.cpus, "num_gpus": 1 if on_gpu else 0}
        return asked | ({"memory": self.memory_mb * 2**20} if self.memory_mb else {})


def slot_count(resources: Mapping[str, float], request: Request, on_gpu: bool) -> int:
    """How many jobs at once fit on a node."""
    capacity = [resources.get("CPU", 0) / request.cpus]
    if on_gpu:
        capacity.append(resources.get("GPU", 0))
    if request.memory_mb:
        capacity.append(resources.get("memory", 0) / 2**20 / request.memory_mb)
    return int(min(capacity))


def use_gpus(device: str, nodes: Sequence[Mapping[str, float]]) -> bool:
    """Whether jobs run on GPUs: where asked for, or where some node has one and nobody says."""
    if device not in ("auto", "cpu", "cuda"):
        raise UserError(f"--device {device} does not go with --engine ray; use auto, cpu or cuda.")
    there = any(resources.get("GPU", 0) >= 1 for resources in nodes)
    if device == "cuda" and not there:
        raise UserError("--device cuda was asked for, but no node of the cluster has a GPU.")
    return there and device != "cpu"


@dataclass(frozen=True)
class NodeFacts:
    """What a node says of itself before it is given a job."""

    host: str
    machine: Machine
    root: str
    code: str
    cache: str
    holds_truth: bool


@dataclass
class Node:
    """One node, as the harness knows it."""

    identity: str
    address: str
    memory_mb: float
    slots: int
    facts: NodeFacts | None = None
    models: set[Path] = field(default_factory=set)
    """Models that its jobs have had."""
    shipping: threading.Lock = field(default_factory=threading.Lock)
    sent: Counter[str] = field(default_factory=Counter)
    """How often each public file was sent, by digest."""

    @property
    def host(self) -> str:
        """Name for messages."""
        return self.facts.host if self.facts else self.address


def own_facts() -> NodeFacts:
    """Of the machine that this process runs on."""
    return NodeFacts(
        host=os.uname().nodename,
        machine=this_machine(),
        root=str(ROOT),
        code=_code_digest(),
        cache=str(cache_directory()),
        holds_truth=(cache_directory() / "truths").is_dir(),
    )


def _code_digest() -> str:
    """Over all code that a job may run: the harness, the tasks and every submission."""
    folders = [ROOT / "benchmark", ROOT / "tasks", *submission_directories()]
    files = {path for folder in folders for path in folder.rglob("*.py") if path.is_file()}
    for named in submission_files():
        files |= {named} if named.is_file() else set(named.rglob("*.py"))
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(f"{path} {file_digest(path)}\n".encode())
    return total.hexdigest()


def refusal(node: NodeFacts, harness: NodeFacts, weakest: str) -> str:
    """Why a node takes no jobs, in one sentence; empty where it does."""
    strength = sandbox.SANDBOXES.index
    kind = node.machine.sandbox
    if strength(kind) > strength(weakest):
        return (
            f"Node {node.host} takes no jobs: its sandbox is {kind}, and at least {weakest} is "
            f"asked for; install what is missing there, or pass --sandbox {kind}."
        )
    if not contains(node) and node.holds_truth:
        return (
            f"Node {node.host} takes no jobs: private text lies in its cache {node.cache}, and "
            f"its sandbox {kind} does not keep an attack from reading it."
        )
    if node.root != harness.root or node.code != harness.code:
        return (
            f"Node {node.host} takes no jobs: the code in {node.root} is not that in "
            f"{harness.root} here; install the same version in the same place."
        )
    theirs, ours = node.machine.packages, harness.machine.packages
    for name in sorted(n for n in ours | theirs if ours.get(n) != theirs.get(n)):
        return (
            f"Node {node.host} takes no jobs: it has {name} {theirs.get(name, 'not')} installed, "
            f"this machine {ours.get(name, 'does not')}; install the same version."
        )
    return ""


def contains(node: NodeFacts) -> bool:
    """Whether a node keeps foreign code from what else lies there."""
    return node.machine.sandbox != sandbox.AUDIT_HOOK


def choose_job(
    waiting: Sequence[Job], models: set[Path], private: bool, avoided: Container[int] = ()
) -> int | None:
    """Place of the job that a node takes next.

    Those that others wait for come first, then the longest, so that none is left over at the end;
    of jobs about as long, one whose model the node has. `private` tells whether the node may see
    private text; `avoided` are the identities of jobs for other nodes.
    """
    fitting = [
        place
        for place, job in enumerate(waiting)
        if (private or not job.work.sees_private) and id(job) not in avoided
    ]
    if not fitting:
        return None
    longest = max(_length(waiting[place]) for place in fitting)
    about = [place for place in fitting if _length(waiting[place]) >= SHORTER * longest]
    at_hand = [place for place in about if waiting[place].files.get("model") in models]
    return (at_hand or about)[0]


def _length(job: Job) -> float:
    return float("inf") if job.expected_seconds is None else job.expected_seconds
