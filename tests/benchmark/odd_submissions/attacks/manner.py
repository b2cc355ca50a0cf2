"""An attack with named variants."""

from benchmark.spec import Attack, Observation, Parameter, Recovery, Role


class Manner(Attack):
    """Answers as many sentences as it is told to."""

    name = "manner"
    summary = "Answers with a few sentences of one token."
    observes = frozenset({Role.WORD_EMBEDDING})
    parameters = {"count": Parameter(1, "Sentences.", low=0), "token": Parameter(5, "Its id.")}
    variants = {"manner_silent": {"count": 0}}

    def recover(self, observation: Observation) -> Recovery:
        """The same for everybody."""
        return Recovery([[int(self.settings["token"])]] * int(self.settings["count"]))
