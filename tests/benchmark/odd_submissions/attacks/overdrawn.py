"""Has a variant with a value that its own parameter does not take."""

from benchmark.spec import Attack, Parameter, Recovery


class Overdrawn(Attack):
    name = "overdrawn"
    summary = "Sets what it forbids."
    parameters = {"steps": Parameter(10, "how many", low=1)}
    variants = {"overdrawn_less": {"steps": -5}}

    def recover(self, observation):
        return Recovery()
