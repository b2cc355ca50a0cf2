"""Forgets its name."""

from benchmark.spec import Attack, Recovery


class Nameless(Attack):
    summary = "Who?"

    def recover(self, observation):
        return Recovery()
