"""A computation that is recorded once and then replayed: the same operations on the same memory.

A step of the search on a small model is some two thousand operations of a few microseconds, of
which modules, autograd and allocation take the larger part. None of them is needed to do the same
again with other numbers. Results are those of the computation that was recorded, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Function = Callable[..., Sequence[Tensor]]
Call = tuple[Callable[..., object], Sequence[Any], Mapping[str, Any]]

_MOST_BYTES = 1 << 28
"""Memory that a recording may hold. Where more is needed, arithmetic takes the time anyway."""


class Unrecordable(Exception):
    """A computation whose course depends on its numbers, or that needs much memory."""


class Replay:
    """Records `function` with the given inputs, and repeats what it did with others."""

    def __init__(self, function: Function, *inputs: Tensor) -> None:
        self.inputs = [each.detach().clone() for each in inputs]
        with torch.enable_grad(), _Recording(self.inputs) as recording:
            answers = function(*self.inputs)
        self.calls = recording.calls
        self.answers = [each.detach() for each in answers]
        others = [each.detach() / 2 for each in inputs]
        if not all(map(torch.equal, self(*others), function(*others))):
            raise Unrecordable("with other inputs a repetition differs from a new computation")

    @torch.no_grad()
    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """The answers for other inputs of the same shapes, which the next call overwrites."""
        for own, given in zip(self.inputs, inputs, strict=True):
            own.copy_(given)
        for function, positional, named in self.calls:
            function(*positional, **named)
        return self.answers


class _Recording(TorchDispatchMode):
    """Notes the operations that have to be repeated when the inputs change.

    It keeps every tensor, so a storage is known by its address, and what an operation returned is
    where its repetition writes. Views of kept memory, and whatever follows from constants alone,
    need no repetition.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []
        self.changing = {_storage(each) for each in inputs}
        self.kept: list[object] = []
        self.bytes = 0

    def __enter__(self) -> Self:
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __torch_dispatch__(
        self,
        func: Any,
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Runs the operation and takes note of it."""
        given = [_detached(each) for each in args]
        named = {name: _detached(each) for name, each in (kwargs or {}).items()}
        read = {_storage(each) for each in _tensors([*given, *named.values()])}
        changes = not read.isdisjoint(self.changing)
        if func._schema.is_mutable and changes:
            self._restore_constant(func, given[0])
        answer = func(*args, **(kwargs or {}))
        found = [each.detach() for each in _tensors([answer])]
        self.kept += (given, named, found)
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise Unrecordable(f"{func} depends on chance")
        if not changes:
            return answer
        if not _BY_NUMBERS.isdisjoint(func.tags):
            raise Unrecordable(f"{func} depends on numbers")
        if func._schema.is_mutable:
            self.changing.add(_storage(given[0]))
            self.calls.append((_in_place(func), given, named))
            return answer
        if not read.issuperset(map(_storage, found)):
            self._note(func, given, named, found)
        return answer

    def _restore_constant(self, func: Any, target: object) -> None:
        """A constant that is about to be overwritten begins anew in each repetition."""
        if not isinstance(target, Tensor):
            raise Unrecordable(f"{func} changes several tensors")
        if _storage(target) not in self.changing:
            whole = target.new_empty(0).set_(target.untyped_storage())
            self.calls.append((Tensor.copy_, (whole, whole.clone()), {}))

    def _note(
        self, func: Any, given: Sequence[Any], named: Mapping[str, Any], found: Sequence[Tensor]
    ) -> None:
        """An operation whose results are written to where they are now."""
        self.changing.update(map(_storage, found))
        self.bytes += sum(each.untyped_storage().nbytes() for each in found)
        if self.bytes > _MOST_BYTES:
            raise Unrecordable("it takes too much memory")
        if "empty" not in func._schema.name:  # what it returns is not written yet
            self.calls.append(_writing(func, given, named, found))


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    """All tensors among arguments or results, those in lists included."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _detached(value: Any) -> Any:
    """Without its part in autograd's graph, which would be kept alive."""
    if isinstance(value, Tensor):
        return value.detach()
    return [_detached(each) for each in value] if isinstance(value, list | tuple) else value


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _writing(
    func: Any, given: Sequence[Any], named: Mapping[str, Any], results: Sequence[Tensor]
) -> Call:
    """Into the results: by the function of torch that can, else by a copy."""
    name = func._schema.name.partition("::")[2]
    if name in _COPIES:
        return Tensor.copy_, (results[0], given[0]), {}
    direct = getattr(torch, name, None)
    if direct is not None and len(results) == 1:
        into = dict(named) | {"out": results[0]}
        before = results[0].clone()
        try:
            direct(*given, **into)
        except (TypeError, RuntimeError):
            pass
        else:
            if torch.equal(before, results[0]):
                return direct, given, into
        results[0].copy_(before)

    def copied() -> None:
        for own, new in zip(results, _tensors([func(*given, **named)]), strict=True):
            own.copy_(new)

    return copied, (), {}


def _in_place(func: Any) -> Callable[..., object]:
    """The method of a tensor, which takes less time to call, where there is one."""
    name = func._schema.name.partition("::")[2]
    found: Callable[..., object] = getattr(Tensor, name) if name in _METHODS else func
    return found


_BY_NUMBERS = frozenset({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output})
_COPIES = frozenset({"clone", "_to_copy"})
_METHODS = frozenset({"add_", "sub_", "mul_", "div_", "addcmul_", "baddbmm_", "copy_"})
