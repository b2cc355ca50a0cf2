"""Leaves a note in every place that might outlive a job, or looks for such notes."""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmark.spec import Attack, Parameter, Recovery

LIBC = ctypes.CDLL(None, use_errno=True)
NOTE = "the-answer"
TOKEN = 0
TMP = Path(tempfile.gettempdir())
PACKAGE = Path(json.__file__)
KEYCTL, ADD_KEY = {"x86_64": (250, 248), "aarch64": (219, 217)}.get(os.uname().machine, (0, 0))
SESSION, USER, USER_SESSION = -3, -4, -5
SLEEP = "import time; time.sleep(3599)"


def outbox():
    return TMP.parent / "out"


def server():
    return os.getppid()


class Memory(Attack):
    name = "memory"
    summary = "Tells a later job what it saw."
    parameters = {
        "phase": Parameter("leave", "what to do", choices=("leave", "find")),
        "token": Parameter(1, "what the note says", 1, 1 << 20),
    }

    def recover(self, observation):
        global TOKEN
        TOKEN = self.settings["token"]
        if self.settings["phase"] == "leave":
            note = {name: self.attempt(leave) for name, (leave, _) in CHANNELS.items()}
        else:
            note = {name: self.attempt(find) for name, (_, find) in CHANNELS.items()}
        return Recovery(token_types=frozenset({5}), note=json.dumps(note))

    def attempt(self, work):
        try:
            return bool(work())
        except BaseException as error:
            return f"refused: {type(error).__name__}: {error}"[:100]


CHANNELS = {}


def channel(name, leave, find):
    CHANNELS[name] = (leave, find)


def note_file(place):
    def leave():
        (Path(place) / f"{NOTE}-{TOKEN}").write_text(NOTE)
        return True

    return leave, lambda: (Path(place) / f"{NOTE}-{TOKEN}").exists()


FOLDERS = {
    "scratch": TMP, "job folder": TMP.parent, "slot folder": TMP.parent.parent, "outbox": outbox(),
    "inbox": TMP.parent / "in", "tmp": "/tmp", "var tmp": "/var/tmp", "shared memory": "/dev/shm",
    "dev": "/dev", "run": "/run", "root": "/", "package folder": PACKAGE.parent,
    "environment": sys.prefix,
}  # fmt: skip
for what, folder in FOLDERS.items():
    channel(f"file in {what}", *note_file(folder))


def attribute(path):
    def leave():
        os.setxattr(path, "user.note", str(TOKEN).encode())
        return True

    def find():
        return os.getxattr(path, "user.note") == str(TOKEN).encode()

    return leave, find


for what, folder in FOLDERS.items():
    channel(f"attribute of {what}", *attribute(folder))
channel("attribute of a module", *attribute(PACKAGE))


def mode(path):
    def leave():
        os.chmod(path, 0o711)
        return True

    return leave, lambda: os.stat(path).st_mode & 0o777 == 0o711


for what in ("scratch", "outbox", "job folder", "slot folder", "shared memory", "package folder"):
    channel(f"mode of {what}", *mode(FOLDERS[what]))


def times(path):
    def leave():
        os.utime(path, (TOKEN, TOKEN))
        return True

    return leave, lambda: int(os.stat(path).st_mtime) == TOKEN


for what in ("scratch", "outbox", "slot folder", "package folder"):
    channel(f"times of {what}", *times(FOLDERS[what]))
channel("times of a module", *times(PACKAGE))


def leave_link():
    (outbox() / "link").symlink_to("/usr")
    (outbox() / "folder").mkdir()
    return True


channel("link in the outbox", leave_link, lambda: os.path.lexists(outbox() / "link"))
channel("folder in the outbox", lambda: True, lambda: (outbox() / "folder").exists())


def keyring(ring):
    def leave():
        data = NOTE.encode()
        return LIBC.syscall(ADD_KEY, b"user", str(TOKEN).encode(), data, len(data), ring) > 0

    def find():
        return LIBC.syscall(KEYCTL, 10, ring, b"user", str(TOKEN).encode(), 0) > 0

    return leave, find


for what, ring in (("session", SESSION), ("user", USER), ("user session", USER_SESSION)):
    channel(f"{what} keyring", *keyring(ring))


def system_v(name, *sizes):
    make = getattr(LIBC, name)
    return lambda: make(TOKEN, *sizes, 0o1600) >= 0, lambda: make(TOKEN, *sizes, 0o600) >= 0


channel("System V memory", *system_v("shmget", 4096))
channel("System V queue", *system_v("msgget"))
channel("System V semaphore", *system_v("semget", 1))


def leave_queue():
    return ctypes.CDLL("librt.so.1").mq_open(b"/note", os.O_CREAT | os.O_RDWR, 0o600, None) >= 0


def find_queue():
    return ctypes.CDLL("librt.so.1").mq_open(b"/note", os.O_RDWR) >= 0


channel("message queue", leave_queue, find_queue)


def leave_daemon():
    subprocess.Popen(["setsid", sys.executable, "-c", SLEEP])
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with contextlib.suppress(OSError):
                listener = socket.socket(socket.AF_UNIX)
                listener.bind("\0" + NOTE)
                listener.listen()
            time.sleep(3599)
        os._exit(0)
    return True


def find_daemon():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if SLEEP.encode() in path.read_bytes():
                return True
    return False


def find_socket():
    return socket.socket(socket.AF_UNIX).connect("\0" + NOTE) is None


channel("process", leave_daemon, find_daemon)
channel("abstract socket", lambda: True, find_socket)
channel("host name", lambda: LIBC.sethostname(b"note", 4) == 0,
        lambda: socket.gethostname() == "note")  # fmt: skip


def on_server(change):
    """A mild change to the server alone, which is the parent unless there are namespaces."""

    def leave():
        change(server())
        return True

    return leave


def limit(process):
    _, hard = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (512 + TOKEN % 64, hard))


channel("limits of the server", on_server(limit),
        lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 512 + TOKEN % 64)  # fmt: skip
channel("niceness of the server",
        on_server(lambda p: os.setpriority(os.PRIO_PROCESS, p, 3)),
        lambda: os.getpriority(os.PRIO_PROCESS, 0) == 3)  # fmt: skip
channel("cores of the server", on_server(lambda p: os.sched_setaffinity(p, {0})),
        lambda: len(os.sched_getaffinity(0)) < (os.cpu_count() or 1))  # fmt: skip
channel("scheduler of the server",
        on_server(lambda p: os.sched_setscheduler(p, os.SCHED_BATCH, os.sched_param(0))),
        lambda: os.sched_getscheduler(0) == os.SCHED_BATCH)  # fmt: skip


def score():
    return Path(f"/proc/{server()}/oom_score_adj")


channel("memory score of the server", lambda: score().write_text(str(TOKEN % 64 + 1)) > 0,
        lambda: score().read_text().strip() == str(TOKEN % 64 + 1))  # fmt: skip


def leave_in_server():
    for path in Path("/proc").glob("[0-9]*/environ"):
        if path.parent.name != str(os.getpid()):
            with contextlib.suppress(OSError):
                path.with_name("mem").open("wb").close()
                return True
    return False


channel("memory of another process", leave_in_server, lambda: False)
