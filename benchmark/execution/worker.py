"""Executes one job in its own process: describe a submission, make updates, train, recover text.

Everything a job may know arrives in its assignment and in the files that lie in its inbox;
everything it finds out leaves as one event a line.
"""

from __future__ import annotations

import operator
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, SupportsIndex, TextIO

from pydantic import ValidationError

from benchmark.execution import federated_client, trainer
from benchmark.execution.client import make_client, one_update, take_steps
from benchmark.execution.events import (
    Described,
    Done,
    Event,
    Failed,
    NotLoaded,
    Prepared,
    Recovered,
    Updated,
    encodable,
    protocol_failure,
)
from benchmark.execution.failures import reason_of, status_of
from benchmark.execution.jobs import (
    Assignment,
    CheckJob,
    ClientTestJob,
    DescribeJob,
    EvaluateJob,
    PersonalizeJob,
    PrivateBatchFile,
    RecoverJob,
    RoundJob,
    TrainJob,
    UpdateJob,
)
from benchmark.execution.observing import Countdown, Emit, observation, public_knowledge
from benchmark.execution.randomness import seed_process
from benchmark.execution.timing import Stopwatch, device_peak_mb, process_peak_mb
from benchmark.plugins import loading
from benchmark.plugins.registry import model_package
from benchmark.spec import Attack, Client, Defense, Observation, Public, Recovery, Update
from benchmark.status import Status

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def warm_up() -> None:
    """Do, before any fork, what most jobs would begin with.

    On one thread: a pool of OpenMP threads does not survive the fork.
    """
    import torch

    torch.set_num_threads(1)
    model_package().warm_up()


def main(assignment: Assignment, output: TextIO) -> int:
    """Do the job; 0 unless the process itself is in trouble."""

    def emit(event: Event) -> None:
        output.write(event.model_dump_json() + "\n")
        output.flush()

    try:
        execute(assignment, emit)
    except loading.BrokenPlugin as error:
        emit(NotLoaded(reason=encodable(str(error))))
    except ValidationError as error:
        traceback.print_exc()
        emit(protocol_failure(error))
    except Exception as error:
        traceback.print_exc()
        emit(Failed(status=status_of(error), reason=reason_of(error)))
    return 0


def execute(assignment: Assignment, emit: Emit) -> None:
    """Do what the assignment asks for; errors of a submission rise."""
    match assignment.work:
        case DescribeJob() as work:
            describe(work, emit)
        case UpdateJob() as work:
            make_updates(work, assignment, emit)
        case TrainJob() as work:
            trainer.train(work, assignment, use_device(assignment), emit)
        case EvaluateJob() as work:
            trainer.evaluate(work, assignment, use_device(assignment), emit)
        case RoundJob() as work:
            federated_client.train_round(work, assignment, use_device(assignment), emit)
        case PersonalizeJob() as work:
            federated_client.personalize(work, assignment, use_device(assignment), emit)
        case ClientTestJob() as work:
            federated_client.test(work, assignment, use_device(assignment), emit)
        case RecoverJob() as work:
            recover_all(work, assignment, emit)
        case CheckJob() as work:
            from benchmark.execution import checking

            checking.check(work, assignment, emit)


def describe(work: DescribeJob, emit: Emit) -> None:
    """Metadata of a submission, so that the harness itself never imports one."""
    emit(Described(meta=loading.describe(loading.load(work.submission, work.role))))


# ----------------------------------------------------------------------------- the client's side


def make_updates(work: UpdateJob, assignment: Assignment, emit: Emit) -> None:
    """Run a defense's client on each private batch and store what leaves the client."""
    device, settings = use_device(assignment), work.client
    if settings.federation is not None:
        _make_federated_updates(work, assignment, emit)
        return
    seed_process(work.seed)
    defense = loading.make_defense(work.defense)
    model, _ = model_package().open_model(
        assignment.inbox / "model", settings.objective, settings.precision, device
    )
    send_updates(defense, model, device, work, assignment, emit)


def send_updates(
    defense: Defense,
    model: PreTrainedModel,
    device: torch.device,
    work: UpdateJob,
    assignment: Assignment,
    emit: Emit,
) -> None:
    """What clients with this defense and model send."""
    from safetensors.torch import save_file

    settings = work.client
    model.train(settings.mode == "train")
    read = partial(trainer.read_batch, device=device)
    for item in work.batches:
        client = make_client(settings, model, device)
        with _weights_kept(model, bool(item.warmup)):
            earlier = [read(assignment.inbox / file) for file in item.warmup]
            take_steps(client, earlier, work.momentum, item.seed)
            batch = read(assignment.inbox / item.file)
            with Stopwatch(device) as watch:
                update = one_update(defense, client, batch, item.seed)
        tensors = {n: t.detach().cpu().contiguous() for n, t in update.tensors.items()}
        save_file(tensors, assignment.outbox / item.out)
        emit(_updated(item, update, client, watch.seconds))


def _make_federated_updates(work: UpdateJob, assignment: Assignment, emit: Emit) -> None:
    """The same of clients that have taken part in a federated training."""
    everyone = federated_client.Participants(work, assignment, use_device(assignment))
    for item in work.batches:
        update, client = federated_client.observed_update(everyone, item)
        federated_client.write_tensors(update.tensors, assignment.outbox / item.out)
        emit(_updated(item, update, client, None, everyone.kept))


def _updated(
    item: PrivateBatchFile,
    update: Update,
    client: Client,
    seconds: float | None,
    kept: Sequence[str] = (),
) -> Updated:
    return Updated(
        kept=list(kept),
        index=item.index,
        update_kind=update.kind,
        local_steps=update.local_steps,
        learning_rate=update.learning_rate,
        noise_scale=update.noise_scale,
        epsilon=update.epsilon,
        bytes_up=update.bytes_up,
        roles={str(role): name for role, name in client.roles.names.items()},
        seconds=seconds,
    )


@contextmanager
def _weights_kept(model: torch.nn.Module, changing: bool) -> Iterator[None]:
    """The model is as it was before once a client has trained it."""
    before = {n: p.detach().clone() for n, p in model.named_parameters()} if changing else {}
    yield
    for name, parameter in model.named_parameters():
        if changing:
            parameter.data.copy_(before[name])


# --------------------------------------------------------------------------- the attacker's side


def recover_all(work: RecoverJob, assignment: Assignment, emit: Emit) -> None:
    """Prepare the attack once, then recover the snapshots, jointly where the attack can."""
    import torch

    left = Countdown(assignment.time_limit)
    device = use_device(assignment)
    torch.manual_seed(work.task.seed)
    attack = loading.make_attack(work.attack)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = attack.allow_tf32
    public = public_knowledge(work.task, assignment.inbox, device)

    def observe(number: int) -> Observation:
        return observation(public, work.snapshots[number], assignment.inbox, emit, left)

    indices = [facts.index for facts in work.snapshots]
    recover_with(attack, public, indices, observe, emit)
    emit(Done(peak_mb=process_peak_mb(), device_peak_mb=device_peak_mb(device)))


def recover_with(
    attack: Attack,
    public: Public,
    indices: list[int],
    observe: Callable[[int], Observation],
    emit: Emit,
    jointly: bool = True,
) -> None:
    """Prepare and answer; `observe` makes the observation of the n-th of these snapshots."""
    with Stopwatch(public.device) as watch:
        attack.prepare(public)
    emit(Prepared(seconds=watch.seconds))
    answers = None
    if jointly and type(attack).recover_many is not Attack.recover_many:
        answers = _recover_jointly(attack, public, indices, map(observe, range(len(indices))))
    for number, index in enumerate(indices):
        emit(answers[number] if answers else _recover(attack, index, observe(number)))


def _recover_jointly(
    attack: Attack, public: Public, indices: list[int], observed: Iterable[Observation]
) -> list[Recovered] | None:
    """All snapshots in one call, each charged an equal share; None where that call fails."""
    observations = list(observed)
    watch = Stopwatch(public.device)
    try:
        with watch:
            recoveries = list(attack.recover_many(observations))
        if len(recoveries) != len(observations):
            raise ValueError(f"recover_many gave {len(recoveries)} of {len(observations)} answers")
    except Exception:
        traceback.print_exc()  # one by one, the snapshot that is to blame fails alone
        return None
    share = watch.seconds / len(recoveries)
    return [
        _answer(recovery, public, index, share, joint=True)
        for index, recovery in zip(indices, recoveries, strict=True)
    ]


def _recover(attack: Attack, index: int, observed: Observation) -> Recovered:
    """One timed recovery; an exception here fails this snapshot, not the cell."""
    import torch

    torch.manual_seed(observed.seed)
    watch = Stopwatch(observed.public.device)
    try:
        with watch:
            recovery = attack.recover(observed)
    except Exception as error:
        traceback.print_exc()
        return Recovered(
            index=index, status=status_of(error), reason=reason_of(error), seconds=watch.seconds
        )
    return _answer(recovery, observed.public, index, watch.seconds)


def _answer(
    recovery: Recovery, public: Public, index: int, seconds: float, joint: bool = False
) -> Recovered:
    """A recovery as an event, or what is wrong with it."""

    def invalid(reason: str) -> Recovered:
        status = Status.INVALID
        return Recovered(index=index, status=status, reason=reason, seconds=seconds, joint=joint)

    if not isinstance(recovery, Recovery):
        return invalid(f"recover returned {type(recovery).__name__} instead of a Recovery")
    try:
        sentences = [_ids(sentence) for sentence in recovery.sentences]
        types = None if recovery.token_types is None else sorted(set(_ids(recovery.token_types)))
    except TypeError as error:
        return invalid(encodable(f"token ids must be whole numbers: {error}"))
    size = len(public.tokenizer)
    if any(not 0 <= i < size for ids in (*sentences, types or []) for i in ids):
        return invalid(f"a token id is outside the vocabulary of {size}")
    return Recovered(
        index=index,
        status=Status.OK,
        seconds=seconds,
        joint=joint,
        sentences=sentences,
        token_types=types,
        note=encodable(str(recovery.note)),
        stopped_by_clock=bool(recovery.stopped_by_clock),
    )


def _ids(values: Iterable[SupportsIndex]) -> list[int]:
    return [operator.index(value) for value in values]


# -------------------------------------------------------------------------------------- machinery


def use_device(assignment: Assignment) -> torch.device:
    """The device of a job, with as many threads as it may use."""
    import torch

    torch.set_num_threads(assignment.threads)
    name = assignment.device
    return torch.device("cuda" if name.startswith("cuda") else name)
