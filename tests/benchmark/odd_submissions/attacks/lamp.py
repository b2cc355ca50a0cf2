"""Has a variant with the name of another attack."""

from benchmark.spec import Attack, Parameter, Recovery


class Lamp(Attack):
    name = "lamp"
    summary = "Not LAMP either."
    parameters = {"steps": Parameter(1, "as many as it likes")}
    variants = {"lamp_Cos": {"steps": 2}}

    def recover(self, observation):
        return Recovery()
