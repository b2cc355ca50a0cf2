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
        "surrogate")  # fmt: skip


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
