"""An attack whose variant sets what it does not have."""

from benchmark.spec import Attack, Observation, Recovery


class Misnamed(Attack):
    """Has no parameters."""

    name = "misnamed"
    summary = "Answers nothing."
    variants = {"misnamed_fast": {"steps": 1}}

    def recover(self, observation: Observation) -> Recovery:
        """Nothing."""
        return Recovery()
