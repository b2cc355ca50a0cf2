"""Servers forked from a template begin as fresh ones do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from benchmark.execution import sandbox
from benchmark.execution.describing import submissions
from benchmark.execution.engines.local import LocalEngine
from benchmark.execution.engines.template import ForkedServer, ServerTemplate, template_works
from benchmark.paths import cache_in

pytestmark = pytest.mark.skipif(not template_works(), reason="no server can be forked here")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerTemplate]:
    with closing(ServerTemplate("cpu", 1, tmp_path_factory.mktemp("jobs"))) as running:
        yield running


def fork(template: ServerTemplate, home: Path) -> ForkedServer:
    with (home / "errors").open("wb") as errors:
        server = template.fork(home, errors.fileno(), warm=True)
    assert server is not None
    return server


def end(server: ForkedServer) -> None:
    server.kill()
    server.wait()
    for stream in (server.stdin, server.stdout):
        assert stream is not None
        stream.close()


def test_the_template_has_a_clean_environment_one_thread_and_no_files_of_the_harness(
    template: ServerTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKBOARD_SALT", "a secret")
    end(fork(template, tmp_path))
    assert template.process is not None
    process = psutil.Process(template.process.pid)
    given = process.environ()
    assert given == sandbox.environment(1, "cpu", Path(given["HOME"]))
    assert process.num_threads() == 1
    assert process.open_files() == []
    kinds = [os.readlink(path) for path in Path(f"/proc/{process.pid}/fd").iterdir()]
    assert sum(kind.startswith("socket:") for kind in kinds) == 1
    assert sum(kind.startswith("pipe:") for kind in kinds) == 0


def test_a_forked_server_has_its_own_session_and_its_own_streams_alone(
    template: ServerTemplate, tmp_path: Path
) -> None:
    first, second = fork(template, tmp_path), fork(template, tmp_path)
    time.sleep(0.5)
    for server in (first, second):
        assert os.getsid(server.pid) == server.pid
        files = {path.name: os.readlink(path) for path in Path(f"/proc/{server.pid}/fd").iterdir()}
        assert set(files) == {"0", "1", "2"}
    assert os.readlink(f"/proc/{first.pid}/fd/0") != os.readlink(f"/proc/{second.pid}/fd/0")
    end(first)
    end(second)


def test_servers_end_with_their_template_and_the_next_one_is_forked_from_another(
    template: ServerTemplate, tmp_path: Path
) -> None:
    server = fork(template, tmp_path)
    assert template.process is not None
    template.process.kill()
    end(server)
    with (tmp_path / "errors").open("wb") as errors:
        assert template.fork(tmp_path, errors.fileno(), warm=False) is None
        again = template.fork(tmp_path, errors.fileno(), warm=False)
    assert again is not None
    end(again)


def test_a_template_that_refuses_is_asked_no_more_and_its_servers_go_on(tmp_path: Path) -> None:
    with closing(ServerTemplate("cpu", 1, tmp_path / "jobs")) as template:
        server = fork(template, tmp_path)
        process = template.process
        with (tmp_path / "errors").open("wb") as errors:
            assert template._control is not None
            assert process is not None
            process.send_signal(signal.SIGSTOP)  # so that it cannot answer in time
            template._control.settimeout(0.1)
            assert template.fork(tmp_path, errors.fileno(), warm=True) is None
            process.send_signal(signal.SIGCONT)
            template._control.settimeout(10)
            assert template.fork(tmp_path, errors.fileno(), warm=True) is None
        assert template.process is process
        assert server.poll() is None
        end(server)
        assert server.poll() is not None


def test_a_run_that_is_over_waits_for_no_template(tmp_path: Path) -> None:
    with closing(ServerTemplate("cpu", 1, tmp_path / "jobs")) as template:
        end(fork(template, tmp_path))
        template.abort()
        with (
            (tmp_path / "errors").open("wb") as errors,
            pytest.raises(OSError, match="the run is over"),
        ):
            template.fork(tmp_path, errors.fileno(), warm=True)


WHAT_A_JOB_SEES = """
import os, pathlib, random, tempfile, time
import numpy

time.sleep(1)  # so that both servers have one
home = pathlib.Path(os.environ["HOME"])
(home / "note").write_text("mine")
raise ValueError(
    f"{home.is_dir()} {tempfile.gettempdir() == str(home)} {random.random()} {numpy.random.rand()}"
)
"""


def test_jobs_of_two_servers_have_a_folder_and_other_numbers_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "defenses").mkdir()
    for name in ("first", "second"):
        (tmp_path / "defenses" / f"{name}.py").write_text(WHAT_A_JOB_SEES)
    monkeypatch.setenv("LEAKBOARD_SUBMISSIONS", str(tmp_path))
    with cache_in(tmp_path / "cache"), LocalEngine(["cpu", "cpu"], threads=1) as engine:
        broken = submissions("defense", engine).broken
    said = [item.reason.split()[-4:] for item in broken]
    assert [words[:2] for words in said] == [["True", "True"]] * 2
    (one, another) = (words[2:] for words in said)
    assert one[0] != another[0]
    assert one[1] != another[1]
