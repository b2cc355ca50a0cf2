"""Loads one submission and describes it as plain data. Runs inside the sandbox only."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from benchmark.plugins.composition import Combined, overrides
from benchmark.plugins.description import Description, SubmissionCall
from benchmark.plugins.installed import split_reference
from benchmark.plugins.registry import Kind
from benchmark.spec import Attack, Defense, Parameter, Submission

KINDS: dict[Kind, type[Submission]] = {"attack": Attack, "defense": Defense}


class BrokenPlugin(Exception):
    """A submission that cannot be used, with the reason for its author."""


def load(reference: str, kind: Kind) -> type[Submission]:
    """The one submission class behind a file, a folder or `module:Class[@folder]`."""
    if ":" in reference and not Path(reference).exists():
        found: list[type[Submission]] = [_import_class(*split_reference(reference))]
    else:
        module = _import_file(Path(reference), kind)
        found = [
            value
            for value in vars(module).values()
            if inspect.isclass(value)
            and issubclass(value, Submission)
            and value.__module__ == module.__name__
            and not value.__name__.startswith("_")
        ]
    if len(found) != 1:
        raise BrokenPlugin(f"holds {len(found)} public submission classes instead of one")
    _check(found[0], kind)
    return found[0]


def make_attack(call: SubmissionCall) -> Attack:
    """An attack with its parameters."""
    attack = load(call.reference, "attack")(**call.parameters)
    assert isinstance(attack, Attack)
    return attack


def make_defense(calls: Iterable[SubmissionCall]) -> Defense:
    """A defense with its parameters, or several in combination."""
    made = []
    for call in calls:
        defense = load(call.reference, "defense")(**call.parameters)
        assert isinstance(defense, Defense)
        made.append(defense)
    return made[0] if len(made) == 1 else Combined(made)


def _import_class(module: str, name: str, folder: str) -> type[Submission]:
    """A class of an installed package, which lies where Python looks or in the folder."""
    if folder and folder not in sys.path:
        sys.path.append(folder)
    try:
        found = getattr(importlib.import_module(module), name)
    except BaseException as error:
        raise BrokenPlugin(_explain(error)) from error
    if not (inspect.isclass(found) and issubclass(found, Submission)):
        raise BrokenPlugin(f"{name} is not a submission class")
    return found


def _import_file(path: Path, kind: Kind) -> ModuleType:
    name = f"submissions.{kind}s.{path.stem}"
    file = path / "__init__.py" if path.is_dir() else path
    search = [str(path)] if path.is_dir() else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=search)
    if spec is None or spec.loader is None:
        raise BrokenPlugin("is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        raise BrokenPlugin(_explain(error)) from error
    return module


def _explain(error: BaseException) -> str:
    """The exception and the line where it arose, in one sentence."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError in line {error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""
    return f"{type(error).__name__}{where}: {error}"


def _check(cls: type[Submission], kind: Kind) -> None:
    """Every attribute that the contract asks for, with a sentence for what is missing."""
    if not issubclass(cls, KINDS[kind]):
        raise BrokenPlugin(f"{cls.__name__} is not a subclass of {KINDS[kind].__name__}")
    for attribute in ("name", "summary"):
        value = getattr(cls, attribute, None)
        if not isinstance(value, str) or not value.strip():
            raise BrokenPlugin(f"{cls.__name__} has no `{attribute}` (a non-empty string)")
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(cls.__abstractmethods__))
        raise BrokenPlugin(f"{cls.__name__} does not define {missing}")
    for name, parameter in cls.parameters.items():
        if not isinstance(parameter, Parameter):
            raise BrokenPlugin(f"parameter {name!r} of {cls.__name__} is not a spec.Parameter")
    for name, settings in cls.variants.items():
        if not name.startswith(f"{cls.name}_"):
            raise BrokenPlugin(f"variant {name!r} of {cls.__name__} does not begin with its name")
        if unknown := set(settings) - set(cls.parameters):
            raise BrokenPlugin(f"variant {name!r} sets {min(unknown)!r}, which is no parameter")


def describe(cls: type[Submission]) -> Description:
    """A submission's metadata."""
    attack = cls if issubclass(cls, Attack) else None
    return Description(
        name=cls.name,
        summary=cls.summary,
        paper=cls.paper,
        allow_tf32=cls.allow_tf32,
        parameters=dict(cls.parameters),
        variants={name: dict(settings) for name, settings in cls.variants.items()},
        observes=tuple(sorted(map(str, attack.observes))) if attack else (),
        needs=tuple(sorted(map(str, attack.needs))) if attack else (),
        uses=tuple(sorted(map(str, attack.uses))) if attack else (),
        objectives=tuple(sorted(attack.objectives)) if attack else (),
        baseline=attack is not None and attack.baseline,
        overrides=tuple(overrides(cls)) if issubclass(cls, Defense) else (),
    )
