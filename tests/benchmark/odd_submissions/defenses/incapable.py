"""Cannot do what is asked of it."""

from benchmark.spec import Defense, Unsupported


class Incapable(Defense):
    name = "incapable"
    summary = "Refuses every model."

    def local_update(self, client, batch, names):
        raise Unsupported("this model has layers that it cannot treat")
