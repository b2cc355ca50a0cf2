"""Which node takes which job, and what travels to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.execution import sandbox
from benchmark.execution.engines.nodes import (
    Request,
    choose_job,
    own_facts,
    refusal,
    slot_count,
    use_gpus,
)
from benchmark.execution.engines.shipping import DamagedFile, NodeFiles, Packer, pieces_of
from benchmark.execution.jobs import ClientSettings, DescribeJob, EvaluateJob, Job
from benchmark.plugins.registry import all_tasks

DESCRIBE = DescribeJob(submission="x.py", role="attack")
PRIVATE = EvaluateJob(client=ClientSettings.of(all_tasks()["mini/cola"]), max_tokens=8)


def job(seconds: float | None, model: str = "a", private: bool = False) -> Job:
    work = PRIVATE if private else DESCRIBE
    return Job(work, {"model": Path(model)}, expected_seconds=seconds)


def test_long_jobs_come_first_and_models_stay_where_they_are() -> None:
    waiting = [job(1), job(100, "b"), job(60), job(55, "c")]
    assert choose_job(waiting, set(), private=True) == 1
    assert choose_job(waiting, {Path("a")}, private=True) == 2  # about as long, and at hand
    assert choose_job(waiting, {Path("c"), Path("a")}, private=True) == 2
    assert choose_job([job(1), job(100, "b")], {Path("a")}, private=True) == 1  # far longer
    assert choose_job([job(9), job(None, "b")], {Path("a")}, private=True) == 1  # others wait


def test_private_text_goes_to_no_node_that_could_leak_it() -> None:
    waiting = [job(None, private=True), job(1)]
    assert choose_job(waiting, set(), private=True) == 0
    assert choose_job(waiting, set(), private=False) == 1
    assert choose_job(waiting[:1], set(), private=False) is None
    assert choose_job(waiting, set(), private=True, avoided=[id(waiting[0])]) == 1


def test_slots_follow_what_a_job_asks_for() -> None:
    node = {"CPU": 16.0, "GPU": 4.0, "memory": 64 * 2**30}
    assert slot_count(node, Request(cpus=2), on_gpu=False) == 8
    assert slot_count(node, Request(cpus=2), on_gpu=True) == 4
    assert slot_count(node, Request(memory_mb=40 * 1024), on_gpu=True) == 1
    assert slot_count({"CPU": 16.0}, Request(), on_gpu=True) == 0
    asked = Request(cpus=2, memory_mb=1024).resources(on_gpu=True)
    assert asked == {"num_cpus": 2, "num_gpus": 1, "memory": 2**30}


def test_devices_of_a_cluster() -> None:
    assert use_gpus("auto", [{"CPU": 4}, {"GPU": 1}])
    assert not use_gpus("cpu", [{"GPU": 1}])
    assert not use_gpus("auto", [{"CPU": 4}])
    with pytest.raises(UserError, match="no node of the cluster has a GPU"):
        use_gpus("cuda", [{"CPU": 4}])
    with pytest.raises(UserError, match="use auto, cpu or cuda"):
        use_gpus("cuda:1", [{"GPU": 4}])


def test_nodes_that_differ_are_refused_in_one_sentence() -> None:
    here = replace(own_facts(), holds_truth=False)
    here = replace(here, machine=replace(here.machine, sandbox=sandbox.LANDLOCK))
    assert refusal(here, here, sandbox.LANDLOCK) == ""
    weak = replace(here, machine=replace(here.machine, sandbox=sandbox.AUDIT_HOOK))
    cases = [
        (weak, sandbox.LANDLOCK, "at least landlock is asked for"),
        (here, sandbox.BUBBLEWRAP, "at least bubblewrap is asked for"),
        (replace(weak, holds_truth=True), sandbox.AUDIT_HOOK, "private text lies in its cache"),
        (replace(here, code="other"), sandbox.LANDLOCK, "install the same version"),
        (replace(here, root="/elsewhere"), sandbox.LANDLOCK, "in the same place"),
        (
            replace(here, machine=replace(here.machine, packages={"torch": "1.0"})),
            sandbox.LANDLOCK,
            "install the same version",
        ),
    ]
    for node, weakest, words in cases:
        said = refusal(node, here, weakest)
        assert words in said
        assert said.startswith(f"Node {here.host} takes no jobs: ")
        assert len(said.splitlines()) == 1
    assert refusal(weak, here, sandbox.AUDIT_HOOK) == ""


def test_files_arrive_once_and_whole(tmp_path: Path) -> None:
    source = tmp_path / "model"
    (source / "deep").mkdir(parents=True)
    (source / "weights").write_bytes(b"w" * 1000)
    (source / "deep" / "empty").write_bytes(b"")
    parcel = Packer().pack(Job(PRIVATE, {"model": source, "data/test": source / "weights"}))
    public = {file.name: file for file in parcel.files if file.public}
    assert set(public) == {"model/weights", "model/deep/empty"}
    node = NodeFiles(tmp_path / "node", shared_cache=None)
    weights = public["model/weights"]
    assert node.lacks(weights)
    with pytest.raises(DamagedFile, match="another digest"):
        node.keep(weights, [b"w" * 999])
    assert node.lacks(weights)
    for file in public.values():
        node.keep(file, pieces_of(Path(file.path)))
        assert not node.lacks(file)
    (private,) = (file for file in parcel.files if not file.public)
    assert node.lacks(private)  # though its content is there: it is not to be kept
    job_folder = tmp_path / "job"
    placed = node.unpack(parcel, {private.name: [b"w" * 1000]}, job_folder)
    assert {name: path.read_bytes()[:1] for name, path in placed.items()} == {
        "model/weights": b"w", "model/deep/empty": b"", "data/test": b"w",
    }  # fmt: skip
    assert placed["data/test"].parent == job_folder
    (tmp_path / "node" / weights.sha256).write_bytes(b"changed")
    assert NodeFiles(tmp_path / "node", None).lacks(weights)
    shared = NodeFiles(tmp_path / "other", shared_cache=tmp_path)
    assert not any(shared.lacks(file) for file in parcel.files)
