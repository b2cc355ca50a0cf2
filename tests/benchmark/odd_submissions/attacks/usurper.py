"""Bears the name of another attack's variant."""

from benchmark.spec import Attack, Recovery


class Usurper(Attack):
    name = "lamp_cos_quick"
    summary = "Not LAMP."

    def recover(self, observation):
        return Recovery()
