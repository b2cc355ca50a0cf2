"""Tries every way out of the job that its parameter names a target for."""

import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmark.spec import Attack, Parameter, Recovery

LIBC = ctypes.CDLL(None, use_errno=True)
TMP = Path(tempfile.gettempdir())


class Probe(Attack):
    name = "probe"
    summary = "Reads, writes, links, connects and signals outside."
    parameters = {
        "secret": Parameter("", "folder outside that holds secret.txt and a socket"),
        "process": Parameter(0, "a process outside"),
    }

    def recover(self, observation):
        self.secret = Path(self.settings["secret"]) / "secret.txt"
        self.process = self.settings["process"]
        note = {name.removeprefix("try_"): self.attempt(name) for name in dir(self)
                if name.startswith("try_")}  # fmt: skip
        return Recovery(token_types=frozenset({5}), note=json.dumps(note))

    def attempt(self, name):
        try:
            return str(getattr(self, name)())[:200]
        except BaseException as error:
            return f"refused: {type(error).__name__}"

    # --------------------------------------------------------------------------------- reading

    def try_open(self):
        return self.secret.read_text()

    def try_open_relative(self):
        return Path(os.path.relpath(self.secret)).read_text()

    def try_folder_handle(self):
        folder = os.open(self.secret.parent, os.O_RDONLY)
        return os.read(os.open("secret.txt", os.O_RDONLY, dir_fd=folder), 99)

    def try_folder_handle_of_root(self):
        root = os.open("/", getattr(os, "O_PATH", 0))
        path = str(self.secret).lstrip("/")
        return os.read(os.open(path, os.O_RDONLY, dir_fd=root), 99)

    def try_symlink(self):
        (TMP / "symlink").symlink_to(self.secret)
        return (TMP / "symlink").read_text()

    def try_hard_link(self):
        os.link(self.secret, TMP / "link")
        return (TMP / "link").read_text()

    def try_rename_here(self):
        os.rename(self.secret, TMP / "moved")
        return (TMP / "moved").read_text()

    def try_move_by_shutil(self):
        return Path(shutil.copy(self.secret, TMP / "copied")).read_text()

    def try_list(self):
        return os.listdir(self.secret.parent)

    def try_native_open(self):
        handle = LIBC.open(bytes(self.secret), os.O_RDONLY)
        if handle < 0:
            raise PermissionError
        return os.read(handle, 99)

    def try_program(self):
        return subprocess.run(["cat", str(self.secret)], capture_output=True, check=True).stdout

    def try_root_of_a_process(self):
        return Path(f"/proc/{self.process}/root{self.secret}").read_text()

    def try_environment_of_a_process(self):
        return Path(f"/proc/{self.process}/environ").read_text()

    def try_memory_of_a_process(self):
        return open(f"/proc/{self.process}/mem", "rb") and "opened"

    def try_disk(self):
        for path in Path("/dev").glob("[svn][dv]*[0-9a-z]"):
            if path.is_block_device():
                return open(path, "rb").read(10)
        raise FileNotFoundError

    # --------------------------------------------------------------------------------- writing

    def try_write(self):
        return self.secret.with_name("written").write_text("x")

    def try_append(self):
        return self.secret.open("a").write("x")

    def try_remove(self):
        return os.remove(self.secret.with_name("removable.txt"))

    def try_make_folder(self):
        return os.mkdir(self.secret.with_name("made"))

    def try_change_mode(self):
        return os.chmod(self.secret, 0o777)

    def try_change_times(self):
        return os.utime(self.secret, (1, 1))

    def try_truncate(self):
        return os.truncate(self.secret.with_name("removable.txt"), 0)

    def try_write_into_a_package(self):
        return Path(json.__file__).with_name("planted.py").write_text("x")

    def try_write_into_the_environment(self):
        return (Path(sys.prefix) / "planted.pth").write_text("x")

    def try_write_into_the_harness(self):
        import benchmark

        return Path(benchmark.__file__).with_name("planted.py").write_text("x")

    def try_replace_by_rename(self):
        (TMP / "mine").write_text("x")
        return os.rename(TMP / "mine", self.secret.with_name("renamed"))

    def try_rename_by_folder_handle(self):
        (TMP / "mine").write_text("x")
        handle = os.open(TMP, os.O_RDONLY)
        return os.rename("mine", self.secret.with_name("renamed"), src_dir_fd=handle)

    # ---------------------------------------------------------------------- network and processes

    def try_socket_file(self):
        return socket.socket(socket.AF_UNIX).connect(str(self.secret.with_name("socket")))

    def try_abstract_socket(self):
        return socket.socket(socket.AF_UNIX).connect("\0leakboard-test")

    def try_internet(self):
        return socket.create_connection(("127.0.0.1", 9), timeout=1)

    def try_bind(self):
        return socket.socket().bind(("127.0.0.1", 0))

    def try_datagram(self):
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))

    def try_signal(self):
        return os.kill(self.process, signal.SIGUSR1)

    def try_signal_all(self):
        return os.kill(self.process, 0)

    def try_trace(self):
        if LIBC.ptrace(16, self.process, 0, 0) != 0:
            raise PermissionError

    def try_shared_memory_of_outside(self):
        if LIBC.shmget(4713, 4096, 0o600) < 0:
            raise PermissionError

    def try_lock(self):
        with open(json.__file__) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def try_range_lock(self):
        with open(TMP / "lock", "w") as stream:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def try_lower_limits(self):
        import resource

        return resource.prlimit(self.process, resource.RLIMIT_NOFILE, (64, 64))
