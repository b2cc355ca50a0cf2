"""Keeps the word embedding at home."""

from benchmark.spec import Defense, Role


class Frozen(Defense):
    name = "frozen"
    summary = "Shares everything but the word embedding."

    def shares(self, parameter, roles):
        return parameter != roles.names[Role.WORD_EMBEDDING]
