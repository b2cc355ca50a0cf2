"""Takes the name of an attack that is there already."""

from benchmark.spec import Attack, Recovery


class Twin(Attack):
    name = "random"
    summary = "Not the real one."

    def recover(self, observation):
        return Recovery()
