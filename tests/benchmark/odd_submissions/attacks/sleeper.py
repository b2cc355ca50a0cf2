"""Waits, and answers the same whatever it sees: for tests of where and when cells run."""

import time

from benchmark.spec import Attack, Parameter, Recovery


class Sleeper(Attack):
    name = "sleeper"
    summary = "Waits before it answers."
    parameters = {
        "seconds": Parameter(0.5, "how long it waits", low=0.0, high=60.0),
        "number": Parameter(0, "tells one cell from another", low=0, high=1000),
    }

    def prepare(self, public):
        time.sleep(self.settings["seconds"])

    def recover(self, observation):
        return Recovery([[5, 6]])
