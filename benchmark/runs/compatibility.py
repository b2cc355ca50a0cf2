"""Whether an attack fits what a task grants and a defense leaves; if not, the sentence why."""

from __future__ import annotations

from benchmark.runs.plan import Cell
from benchmark.snapshots.store import Manifest


def incompatibility_with_task(cell: Cell) -> str | None:
    """What the task's definition alone rules out."""
    attack, task = cell.attack.entry, cell.task
    if task.objective not in attack.objectives:
        return f"{attack.name} is not defined for the objective {task.objective}"
    lacking = sorted(attack.needed(cell.attack.parameters) - task.grants)
    if lacking:
        return f"{cell.attack.name} needs {' and '.join(lacking)}, which {task.name} does not grant"
    return None


def incompatibility_with_update(cell: Cell, manifest: Manifest) -> str | None:
    """What the model and the defense rule out, judged by an update that was really sent."""
    attack = cell.attack.entry
    for role in attack.observes:
        name = manifest.roles.get(role)
        if name is None:
            return f"{attack.name} reads the {role} gradient, and the model has no {role}"
        if name not in manifest.sketch:
            return (
                f"{attack.name} reads the {role} gradient, which {cell.defense.name} does not share"
            )
    return None
