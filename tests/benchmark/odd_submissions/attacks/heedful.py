"""An attack that prepares at length and then says how much time it is told that there is."""

import time

from benchmark.spec import Attack, Recovery


class Heedful(Attack):
    """Two seconds of preparation."""

    name = "heedful"
    summary = "Says how many seconds are left."

    def prepare(self, public):
        """At length."""
        time.sleep(2.0)

    def recover(self, observation):
        """What the harness says."""
        return Recovery(note=str(observation.seconds_left()))
