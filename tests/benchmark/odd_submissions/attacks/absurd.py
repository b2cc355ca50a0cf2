"""Says things about itself that no record and no page has room for."""

import json
import os

from benchmark.spec import Attack, Parameter, Recovery

LIES = {
    "seconds": {"event": "prepared", "seconds": 1e308},
    "memory": {"event": "done", "peak_mb": 1e308, "device_peak_mb": None},
    "bytes": {"event": "updated", "index": 0, "update_kind": "gradient", "local_steps": 1,
              "learning_rate": 1.0, "noise_scale": None, "epsilon": None, "bytes_up": 10**308,
              "roles": {}},
    "tokens": {"event": "recovered", "index": 0, "status": "ok", "seconds": 1.0,
               "sentences": [[2**31]]},
    "index": {"event": "recovered", "index": -1, "status": "ok", "seconds": 1.0},
}  # fmt: skip
WAYS = (*LIES, "progress", "note", "reason")


class Absurd(Attack):
    name = "absurd"
    summary = "Exaggerates."
    parameters = {"way": Parameter("seconds", "what it exaggerates", choices=WAYS)}

    def recover(self, observation):
        way = self.settings["way"]
        if way == "reason":
            raise ValueError("x" * 100_000)
        if way == "progress":
            observation.report(10**400, -(10**400), float("nan"))
        if way == "note":
            return Recovery([[5]], note="\x1b[31mred\n" * 10_000)
        if way in LIES:
            self.say(LIES[way])
        return Recovery([[5]])

    def say(self, lie):
        """To whatever is open, since one of these is the way to the harness."""
        for handle in range(3, 64):
            try:
                os.write(handle, json.dumps(lie).encode() + b"\n")
            except OSError:
                continue
