"""Executes a submission's job under observation, as it is or on a stand-in for a GPU."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from contextlib import nullcontext

import numpy as np
import torch

from benchmark.execution import worker
from benchmark.execution.device_double import DEVICE, device_double, move_model, move_public
from benchmark.execution.events import Done
from benchmark.execution.jobs import Assignment, CheckJob, RecoverJob, UpdateJob
from benchmark.execution.observing import Countdown, Emit, observation, public_knowledge
from benchmark.execution.randomness import seed_process
from benchmark.execution.timing import process_peak_mb
from benchmark.execution.witness import Witness
from benchmark.plugins import loading
from benchmark.plugins.description import SubmissionCall
from benchmark.plugins.registry import model_package
from benchmark.spec import Defense, Observation


def check(work: CheckJob, assignment: Assignment, emit: Emit) -> None:
    """Do the job as usual, and tell what was noticed meanwhile."""
    folder = assignment.inbox.parent
    own = [str(path) for path in (folder, assignment.inbox, assignment.outbox)]
    witness = Witness(work.sources, own, emit)
    witness.watch()
    if isinstance(work.work, RecoverJob):
        _recover(work, work.work, assignment, witness)
    else:
        _update(work, work.work, assignment, witness)
    emit(Done(peak_mb=process_peak_mb(), device_peak_mb=None))


def _recover(work: CheckJob, job: RecoverJob, assignment: Assignment, witness: Witness) -> None:
    left = Countdown(assignment.time_limit)
    public = public_knowledge(job.task, assignment.inbox, worker.use_device(assignment))
    with device_double() if work.other_device else nullcontext():
        torch.manual_seed(job.task.seed)
        _stir(work.stir)
        attack = loading.make_attack(job.attack)
        witness.attend(attack, "prepare", "recover", "recover_many")
        known = move_public(public) if work.other_device else public

        def observe(number: int) -> Observation:
            facts = job.snapshots[number]
            return observation(known, facts, assignment.inbox, witness.emit, left)

        indices = [facts.index for facts in job.snapshots]
        worker.recover_with(attack, known, indices, observe, witness.emit, work.jointly)


def _update(work: CheckJob, job: UpdateJob, assignment: Assignment, witness: Witness) -> None:
    settings, device = job.client, worker.use_device(assignment)
    if settings.federation is not None:
        _update_of_participants(job, assignment, witness)
        return
    model, _ = model_package().open_model(
        assignment.inbox / "model", settings.objective, settings.precision, device
    )
    with device_double() if work.other_device else nullcontext():
        if work.other_device:
            model, device = copy.deepcopy(model), DEVICE
            move_model(model)
        seed_process(job.seed)
        defense = loading.make_defense(job.defense)
        witness.attend(defense, "client_update")
        worker.send_updates(defense, model, device, job, assignment, witness.emit)


def _update_of_participants(job: UpdateJob, assignment: Assignment, witness: Witness) -> None:
    """The same of a federated task, whose clients make the defense and the model themselves."""
    make = loading.make_defense

    def attended(calls: Iterable[SubmissionCall]) -> Defense:
        defense = make(calls)
        witness.attend(defense, "client_update", "adapt")
        return defense

    loading.make_defense = attended
    worker.make_updates(job, assignment, witness.emit)


def _stir(number: int) -> None:
    """Put Python's and NumPy's generators, which nobody seeds for an attack, elsewhere."""
    if number:
        random.seed(f"stir {number}")
        np.random.seed(number)
