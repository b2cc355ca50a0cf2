"""Has a name that is too long for a file once its letters are quoted."""

from benchmark.spec import Attack, Recovery


class Accented(Attack):
    name = "é" * 60
    summary = "Sixty accented letters."

    def recover(self, observation):
        return Recovery()
