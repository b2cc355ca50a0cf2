"""Has a name that would lead out of the cache."""

from benchmark.spec import Defense


class Climber(Defense):
    name = "../../../evil"
    summary = "Climbs."
