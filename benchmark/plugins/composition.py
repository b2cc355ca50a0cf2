"""Defenses in combination: `first+second` is one defense whose parts do what each does alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmark.spec import Batch, Client, Defense, Roles, Update

if TYPE_CHECKING:
    import torch


class Combined(Defense):
    """Shares what all parts share, computed as one of them computes it, changed by each in turn."""

    name = "combined"
    summary = "Several defenses at once."

    def __init__(self, parts: Sequence[Defense]) -> None:
        super().__init__()
        self.parts = parts

    def shares(self, parameter: str, roles: Roles) -> bool:
        """Whatever no part withholds."""
        return all(part.shares(parameter, roles) for part in self.parts)

    def local_update(self, client: Client, batch: Batch, names: Sequence[str]) -> Update:
        """By the one part that computes in a way of its own, if there is one."""
        own = [part for part in self.parts if "local_update" in overrides(type(part))]
        return own[0].local_update(client, batch, names) if own else client.update(batch, names)

    def transform(self, update: Update, generator: torch.Generator) -> Update:
        """From the first part to the last."""
        for part in self.parts:
            update = part.transform(update, generator)
        return update

    def keeps(self, parameter: str, roles: Roles) -> bool:
        """Whatever any part keeps."""
        return any(part.keeps(parameter, roles) for part in self.parts)

    def adapt(self, client: Client, rows: Batch) -> Batch:
        """From the first part to the last."""
        for part in self.parts:
            rows = part.adapt(client, rows)
        return rows


def overrides(defense: type[Defense]) -> list[str]:
    """Which steps, beyond sharing and transforming, a defense does in a way of its own."""
    steps = ("client_update", "local_update", "keeps", "adapt")
    return [step for step in steps if getattr(defense, step) is not getattr(Defense, step)]


def incompatibility(parts: Sequence[tuple[str, Sequence[str]]]) -> str | None:
    """Why parts, given by name and overrides, cannot be combined; None where they can."""
    names = [name for name, _ in parts]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        return f"{twice[0]} occurs twice"
    whole = [name for name, steps in parts if "client_update" in steps]
    if whole:
        return f"{whole[0]} makes its updates from beginning to end"
    own = [name for name, steps in parts if "local_update" in steps]
    if len(own) > 1:
        return f"{own[0]} and {own[1]} each compute the gradient in a way of their own"
    return None
