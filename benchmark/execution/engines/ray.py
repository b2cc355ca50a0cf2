"""A Ray cluster: as many slots on each node as fit there, fed from one queue.

A thread of the harness stands for each slot. It starts an actor on the slot's node, sends it jobs
and what they need, and takes in what comes back. A job whose worker or node is lost goes back into
the queue; a node that joins later is put to use.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmark.errors import UserError
from benchmark.execution import events
from benchmark.execution.engines.engine import Engine
from benchmark.execution.engines.nodes import (
    Node,
    NodeFacts,
    Request,
    choose_job,
    contains,
    own_facts,
    refusal,
    slot_count,
    use_gpus,
)
from benchmark.execution.engines.ray_cluster import (
    close_slots,
    connect,
    first_sentence,
    is_alive,
    living_nodes,
)
from benchmark.execution.engines.shipping import (
    DamagedFile,
    Packer,
    Parcel,
    ShippedFile,
    pieces_of,
    write_pieces,
)
from benchmark.execution.engines.slot import GRACE_SECONDS, START_SECONDS
from benchmark.execution.jobs import Job, Outcome
from benchmark.ownership import claim_folder, release_folder
from benchmark.paths import cache_directory
from benchmark.status import Status

RETRIES = 2
LOOK_SECONDS = 2.0
"""Between looks for nodes that have joined."""
SETTLE_SECONDS = 60.0
"""How long a run that has one slot waits for the others, which may be busy with other work."""
PATIENCE_SECONDS = 60.0
"""How long jobs wait for a node before the run ends."""
STARTS = 3
"""A slot that does not start so many times, or loses so many jobs in a row, is given up."""


class Lost(Exception):
    """A slot has gone, or does what it should not."""


class Refused(Exception):
    """A node is not given any job."""


class RayEngine(Engine):
    """Slots on all nodes of a cluster that are fit for them."""

    retries = RETRIES
    longest_first = True

    def __init__(
        self,
        address: str | None,
        request: Request,
        hidden: Sequence[Path] = (),
        jobs: int = 0,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(request.cpus, hidden)
        self.address, self.request, self.most = address, request, jobs or sys.maxsize
        self.notice = notice or partial(print, file=sys.stderr)
        """Told, in one sentence, of a node that is refused or lost."""
        self.nodes: dict[str, Node] = {}
        self._run = f"run-{secrets.token_hex(8)}"
        self._ready: dict[object, tuple[str, Node]] = {}
        """Device and node of each slot that takes jobs."""
        self._actors: dict[object, Any] = {}
        self._starting = 0
        self._refused: dict[str, str] = {}
        self._lost_on: dict[int, set[str]] = {}
        """Nodes on which a job was lost, by the job's identity."""
        self._packer = Packer()
        self._weights: dict[str, list[Any]] = {}
        """Objects of the weights that several nodes ask for, by digest."""

    # ------------------------------------------------------------------------------ what there is

    @property
    def devices(self) -> Sequence[str]:
        """Of the slots that there are now; never empty, so that plans can count on it."""
        return [device for device, _ in list(self._ready.values())] or ["cpu"]

    def memory_mb(self) -> float:
        """An equal share for each slot of a node, on the node that has least."""
        shares = [node.memory_mb / node.slots for node in self.nodes.values() if node.slots]
        return self.request.memory_mb or min(shares)

    # ---------------------------------------------------------------------------- opening, closing

    def _open(self) -> None:
        self._ours = connect(self.address)
        self._base = claim_folder(cache_directory() / "jobs")
        try:
            self._open_slots()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def _open_slots(self) -> None:
        """Slots on the nodes that there are, at least one of which has to be fit for jobs."""
        self._on_gpu = use_gpus(self.request.device, [n["Resources"] for n in living_nodes()])
        self._find_nodes()
        self._start_thread(self._watch)
        with self._change:
            self._change.wait_for(lambda: self._ready or not self._starting, START_SECONDS)
            self._change.wait_for(lambda: not self._starting, SETTLE_SECONDS)
        if not self._ready:
            why = " ".join(self._refused.values()) or "None has the CPUs or memory of one job."
            raise UserError(f"No node of the Ray cluster can run jobs. {why}")

    def _find_nodes(self) -> None:
        """Slots for every node that is there and has not been looked at."""
        for found in living_nodes():
            identity, resources = found["NodeID"], found["Resources"]
            if identity in self.nodes:
                continue
            left = self.most - sum(node.slots for node in self.nodes.values())
            slots = min(left, slot_count(resources, self.request, self._on_gpu))
            memory = resources.get("memory", 0) / 2**20
            node = Node(identity, found["NodeManagerAddress"], memory, slots)
            self.nodes[identity] = node
            for _ in range(slots):
                self._starting += 1
                self._start_thread(partial(self._serve, node))

    def _watch(self) -> None:
        """Look for new nodes; end the run where jobs wait and nobody can take them."""
        since = time.monotonic()
        while not self._closing:
            with self._change:
                self._change.wait(LOOK_SECONDS)
            self._find_nodes()
            if self._starting or not self._stuck():
                since = time.monotonic()
            elif time.monotonic() - since > PATIENCE_SECONDS:
                self._news.put(UserError(self._why_stuck()))
                return

    def _stuck(self) -> bool:
        with self._change:
            nodes = [node for _, node in self._ready.values()]
            served = (self._choose(node, self._todo) is not None for node in nodes)
            return bool(self._todo) and not any(served)

    def _why_stuck(self) -> str:
        what = self._todo[0].label or "a job"
        told = " ".join(self._refused.values())
        return (
            f"No node of the Ray cluster can run {what} any more; the same command goes on "
            f"once there is one. {told}"
        ).strip()

    def _abort(self) -> None:
        close_slots(list(self._actors.values()))

    def _release(self) -> None:
        super()._release()
        self._abort()  # whoever has not ended by now
        self._weights.clear()
        release_folder(self._base)
        if self._ours:
            import ray

            ray.shutdown()

    # ------------------------------------------------------------------------------------ one slot

    def _serve(self, node: Node) -> None:
        """Keep an actor on a node and feed it, as long as the node is there."""
        key, lost, failures, starting = object(), set[int](), 0, True
        while not self._closing and is_alive(node.identity):
            try:
                self._start_slot(key, node)
                starting, failures = self._started(starting), 0
                self._feed(key, node, lost)
            except Refused as why:
                self._tell_refused(node, str(why))
                break
            except Lost as why:
                failures += 1
                if failures == STARTS or len(lost) >= STARTS:
                    self._tell_refused(node, f"Node {node.host} takes no more jobs: {why}.")
                    break
            finally:
                self._end_slot(key)
        node.slots -= 1
        self._started(starting)

    def _feed(self, key: object, node: Node, lost: set[int]) -> None:
        """Run jobs until the slot is gone; `lost` are those in a row that were lost."""
        while key in self._actors and (job := self._take(partial(self._choose, node))) is not None:
            outcome = self._try(key, node, job)
            lost.add(id(job)) if outcome.lost else lost.clear()
            self._note(node, outcome)
            self._news.put(outcome)
            if len(lost) >= STARTS:
                raise Lost(f"{len(lost)} jobs in a row were lost there; {outcome.reason}")

    def _note(self, node: Node, outcome: Outcome) -> None:
        """Remember where a job was lost, so that another node tries it next."""
        places = self._lost_on.pop(id(outcome.job), set())
        if outcome.lost:
            self._lost_on[id(outcome.job)] = places | {node.identity}

    def _choose(self, node: Node, waiting: Sequence[Job]) -> int | None:
        """A node's next job: where foreign code is not contained, private text is not sent."""
        everywhere = {other.identity for _, other in list(self._ready.values())}
        avoided = [id(job) for job in waiting if self._is_avoided(node, job, everywhere)]
        private = node.facts is not None and contains(node.facts)
        return choose_job(waiting, node.models, private, avoided)

    def _is_avoided(self, node: Node, job: Job, everywhere: set[str]) -> bool:
        places = self._lost_on.get(id(job), set())
        return node.identity in places and not everywhere <= places

    def _started(self, starting: bool) -> bool:
        """Count a slot as started, or given up, the first time."""
        with self._change:
            self._starting -= starting
            self._change.notify_all()
        return False

    def _tell_refused(self, node: Node, why: str) -> None:
        with self._change:
            new = node.identity not in self._refused
            self._refused[node.identity] = why
        if new and self._ready:  # else the sentence ends the run
            self.notice(why)

    def _start_slot(self, key: object, node: Node) -> None:
        """Start an actor and see whether its node is fit for jobs."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from benchmark.execution.engines.ray_slot import RaySlot, SlotSettings

        settings = SlotSettings(
            self._run, self._on_gpu, self.threads, tuple(str(p.resolve()) for p in self.hidden),
            str(cache_directory()), os.environ.get("LEAKBOARD_SUBMISSIONS", ""),
        )  # fmt: skip
        there = NodeAffinitySchedulingStrategy(node.identity, soft=False)
        remote: Any = ray.remote(RaySlot)
        options = {"max_concurrency": 3, "scheduling_strategy": there}
        try:
            made = remote.options(**options, **self.request.resources(self._on_gpu))
            self._actors[key] = actor = made.remote(settings)
            node.facts = facts = self._facts(actor)
        except ray.exceptions.RayError as error:
            raise Lost(first_sentence(error)) from error
        why = refusal(facts, own_facts(), self.request.weakest_sandbox)
        if why:
            raise Refused(why)
        device = "cuda" if self._on_gpu else "cpu"
        with self._change:
            self._ready[key] = device, node
            self._change.notify_all()

    def _facts(self, actor: Any) -> NodeFacts:
        """What a node says of itself; other jobs of the cluster may keep it busy for long."""
        import ray

        asked = actor.facts.remote()
        while not self._closing:
            if ray.wait([asked], timeout=1.0)[0]:
                facts: NodeFacts = ray.get(asked)
                return facts
        raise Lost("the run has ended")

    def _end_slot(self, key: object) -> None:
        with self._change:
            self._ready.pop(key, None)
            actor = self._actors.pop(key, None)
            self._change.notify_all()
        if actor is not None:
            close_slots([actor])

    # ------------------------------------------------------------------------------------- one job

    def _try(self, key: object, node: Node, job: Job) -> Outcome:
        """Run a job on a node; a lost worker is an outcome, too."""
        made = Path(tempfile.mkdtemp(dir=self._base, prefix="made-"))
        try:
            return self._on_node(self._actors[key], node, job, made)
        except Lost as why:
            self._end_slot(key)
            reason = f"the worker on node {node.host} was lost: {why}"
            if not self._closing:
                self.notice(f"{job.label or 'A job'}: {reason}.")
            machine = node.facts.machine if node.facts else None
            return Outcome(job, Status.ERROR, reason, [], "", made, "cpu", True, machine)

    def _on_node(self, actor: Any, node: Node, job: Job, made: Path) -> Outcome:
        import ray

        parcel = self._packer.pack(job)
        limit = job.time_limit + 2 * (START_SECONDS + GRACE_SECONDS)
        try:
            private = self._ship(actor, node, parcel)
            node.models |= {job.files["model"]} if "model" in job.files else set()
            messages = actor.run.options(num_returns="streaming").remote(parcel, private)
            deadline = time.monotonic() + limit
            while ray.wait([messages], timeout=max(0.0, deadline - time.monotonic()))[0]:
                outcome = self._take_in(ray.get(next(messages)), node, job, made)
                if outcome is not None:
                    return outcome
        except (ray.exceptions.RayError, StopIteration, DamagedFile) as error:
            raise Lost(first_sentence(error)) from error
        raise Lost("it did not answer in time")

    def _ship(self, actor: Any, node: Node, parcel: Parcel) -> dict[str, list[Any]]:
        """Send public files that the node lacks, once; returns objects of the private ones."""
        import ray

        public = [file for file in parcel.files if file.public]
        with node.shipping:
            lacking = set(ray.get(actor.lacking.remote(public)))
            for file in public:
                if file.name in lacking:
                    ray.get(actor.keep.remote(file, self._objects(file)))
                    node.sent[file.sha256] += 1
        private = [file for file in parcel.files if not file.public]
        lacking = set(ray.get(actor.lacking.remote(private))) if private else set()
        return {file.name: self._objects(file) for file in private if file.name in lacking}

    def _objects(self, file: ShippedFile) -> list[Any]:
        """A file in Ray's object store; weights stay there, since other nodes will ask for them."""
        import ray

        if file.sha256 in self._weights:
            return self._weights[file.sha256]
        objects = [ray.put(piece) for piece in pieces_of(Path(file.path))]
        if file.public and file.name.startswith(("model/", "prior/")):
            self._weights[file.sha256] = objects
        return objects

    def _take_in(self, message: Any, node: Node, job: Job, made: Path) -> Outcome | None:
        """Handle what a slot says; the outcome, where it was the last of it."""
        from benchmark.execution.engines.ray_slot import MadePiece, Progressed

        if isinstance(message, Progressed):
            event = events.parse_event(message.line)
            if isinstance(event, events.Progress):
                self._pass_on(job, event)
            return None
        if isinstance(message, MadePiece):
            write_pieces(made, message.name, message.content)
            return None
        said = [events.parse_event(line) for line in message.said]
        assert node.facts is not None
        return Outcome(
            job, Status(message.status), message.reason, said, message.log, made, message.device,
            message.lost, node.facts.machine,
        )  # fmt: skip
