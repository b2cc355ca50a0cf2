"""Whether an attack fits what a task grants and a defense leaves; if not, the sentence why."""

from __future__ import annotations

from benchmark.planning import Cell
from benchmark.snapshots import Sheet


def misfit_with_task(cell: Cell) -> str | None:
    """What the task's definition alone rules out."""
    attack, task = cell.attack.entry, cell.task
    if task.objective not in attack.objectives:
        return f"{attack.name} is not defined for the objective {task.objective}"
    needs = dict.fromkeys(attack.needs)
    for parameter in cell.attack.parameters:  # only those that differ from their defaults
        needs |= dict.fromkeys(attack.parameters[parameter].get("needs", ()))
    lacking = [need for need in needs if need not in task.grants]
    if lacking:
        return f"{cell.attack.name} needs {' and '.join(lacking)}, which {task.name} does not grant"
    return None


def misfit_with_update(cell: Cell, sheet: Sheet) -> str | None:
    """What the model and the defense rule out, judged by an update that was really sent."""
    attack = cell.attack.entry
    for role in attack.observes:
        name = sheet.roles.get(role)
        if name is None:
            return f"{attack.name} reads the {role} gradient, and the model has no {role}"
        if name not in sheet.sketch:
            return (
                f"{attack.name} reads the {role} gradient, which {cell.defense.name} does not share"
            )
    return None
