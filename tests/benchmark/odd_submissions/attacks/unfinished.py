"""Has no `recover`."""

from benchmark.spec import Attack


class Unfinished(Attack):
    name = "unfinished"
    summary = "To be written."
