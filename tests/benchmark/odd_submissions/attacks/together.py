"""An attack that reads all snapshots of a task in one go."""

from benchmark.spec import Attack, Parameter, Recovery


class Together(Attack):
    """Answers jointly, unless one of the snapshots is of a kind that it cannot read."""

    name = "together"
    summary = "Answers all snapshots at once."
    parameters = {"unreadable": Parameter(-1, "Number of the snapshot that it fails on.")}

    def recover(self, observation):
        """Alone, each snapshot stands for itself."""
        self.calls = getattr(self, "calls", -1) + 1
        if self.calls == self.settings["unreadable"]:
            raise ValueError("unreadable")
        return Recovery([[5]])

    def recover_many(self, observations):
        """All of them, or none."""
        if self.settings["unreadable"] >= 0:
            raise ValueError("one of them is unreadable")
        return [Recovery([[6]]) for _ in observations]
