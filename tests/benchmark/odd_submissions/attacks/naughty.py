"""Fails in whatever way its parameter says."""

import ctypes
import json
import os
import subprocess
import sys
import time

import torch

from benchmark.spec import Attack, Parameter, Recovery, Unsupported

WAYS = ("raise", "exit", "crash", "hang", "fork", "memory", "nan", "type", "range", "wrong",
        "second", "refuse", "refuse-first", "kill-server", "flood", "forge", "lie",
        "surrogate", "kill", "orphan", "shared-memory", "scratch", "hidden-memory", "long-line",
        "many-lines", "wide-lines", "huge", "escape")  # fmt: skip


class Naughty(Attack):
    name = "naughty"
    summary = "Breaks the contract on purpose."
    parameters = {"way": Parameter("raise", "how to fail", choices=WAYS)}

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.calls = 0

    def recover(self, observation):
        self.calls += 1
        return getattr(self, "do_" + self.settings["way"].replace("-", "_"))(observation)

    def do_raise(self, observation):
        raise RuntimeError("on <script>purpose</script>")

    def do_refuse(self, observation):
        raise Unsupported("too long for it")

    def do_refuse_first(self, observation):
        return self.do_refuse(observation) if self.calls == 1 else Recovery([[5, 6]])

    def do_exit(self, observation):
        sys.exit(7)

    def do_crash(self, observation):
        ctypes.string_at(0)

    def do_hang(self, observation):
        time.sleep(3600)

    def do_fork(self, observation):
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True
        )
        time.sleep(3600)

    def do_memory(self, observation):
        kept = []
        while True:
            kept.append(torch.ones(50_000_000))

    def do_kill(self, observation):
        os.kill(os.getpid(), 9)

    def do_orphan(self, observation):
        """Lets a grandchild take the memory, whose parent is gone."""
        if os.fork() == 0:
            if os.fork() == 0:
                self.do_memory(observation)
            os._exit(0)
        os.wait()
        time.sleep(3600)

    def do_shared_memory(self, observation):
        self.fill("/dev/shm/file")

    def do_scratch(self, observation):
        self.fill("file")

    def do_hidden_memory(self, observation):
        os.memfd_create("file")

    def fill(self, name):
        with open(name, "wb") as file:
            while True:
                file.write(bytes(50_000_000))
                file.flush()

    def do_long_line(self, observation):
        self.say(b"x" * 10_000_000)

    def do_many_lines(self, observation):
        self.say(b'{"event": "prepared", "seconds": 1.0}\n' * 1000)

    def do_wide_lines(self, observation):
        event = {"event": "evaluated", "losses": [], "tokens": [], "predicted": []}
        self.say(json.dumps(event | {"texts": ["x" * 1_000_000]}).encode() + b"\n")

    def say(self, text):
        while True:
            for handle in range(3, 64):
                try:
                    os.write(handle, text)
                except OSError:
                    continue

    def do_huge(self, observation):
        return Recovery([[2**70]], frozenset({2**64}))

    def do_escape(self, observation):
        raise RuntimeError("\x1b]0;title\x07\x1b[31mred\x9b2J\u202e " + "long " * 10_000)

    def do_nan(self, observation):
        return Recovery([[float("nan")]])

    def do_type(self, observation):
        return ["not", "a", "recovery"]

    def do_range(self, observation):
        return Recovery([[10**9]])

    def do_wrong(self, observation):
        return Recovery([["word"]])

    def do_second(self, observation):
        if self.calls == 2:
            raise ValueError("only the second")
        return Recovery([[5, 6, 7]])

    def do_kill_server(self, observation):
        os.kill(os.getppid(), 9)
        time.sleep(3600)

    def do_surrogate(self, observation):
        raise ValueError("half a character: \ud800")

    def do_lie(self, observation):
        lies = [{"event": "failed", "status": "bogus"}, {"event": "prepared", "seconds": "abc"},
                {"event": "recovered", "index": [1]}, ["no", "event"]]  # fmt: skip
        for handle in range(3, 64):
            for lie in lies:
                try:
                    os.write(handle, json.dumps(lie).encode() + b"\n")
                except OSError:
                    break
        return Recovery([[5]])

    def do_flood(self, observation):
        for _ in range(20000):
            print("noise " * 100)
        return Recovery([[5]])

    def do_forge(self, observation):
        for handle in range(3, 64):
            try:
                os.write(handle, b'{"event": "exit", "status": "ok", "reason": "", "log": ""}\n')
            except OSError:
                continue
        return Recovery([[5]])
