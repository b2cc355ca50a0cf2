"""A stand-in for a GPU: tensors that report another device than the CPU and compute on the CPU.

What a GPU refuses, it refuses too, with :class:`OtherDevice`: an operation on tensors of both
devices, a generator of the wrong one, a NumPy array of device memory. Whatever a GPU allows passes:
copies from one device to the other, scalars of the CPU, indices of the CPU. Values are computed as
usual, so code that looks at them goes on as it would.

The device is called `meta`, since torch asks nothing else of that one; tensors of it that torch
makes without data never come up while the stand-in is in place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn, TypeVar

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch
from torch.utils._pytree import tree_leaves, tree_map

from benchmark.spec import Prior, Public

DEVICE = torch.device("meta")
CPU = torch.device("cpu")
Function = Callable[..., object]
Decorated = TypeVar("Decorated", bound=Function)
Arguments = tuple[object, ...]
Options = Mapping[str, object]

_aten = torch.ops.aten
_aliased: Function = _python_dispatch.return_and_correct_aliasing
COPIES = frozenset({_aten.copy_.default, _aten.copy.default, _aten._to_copy.default})
"""What moves data between devices."""
INDEXING = frozenset(
    {
        *(_aten.index.Tensor, _aten._unsafe_index.Tensor, _aten.index_put.default),
        *(_aten.index_put_.default, _aten._index_put_impl_.default),
    }
)
"""What takes indices of the CPU for a tensor anywhere: its second argument."""


class OtherDevice(RuntimeError):
    """What a GPU would have refused, and what to do about it."""


class DeviceTensor(torch.Tensor):
    """A tensor on the device, around the one on the CPU that holds its values."""

    held: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> DeviceTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            layout=values.layout,
            device=DEVICE,
        )
        assert isinstance(made, DeviceTensor)
        made.held = values
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Function, types: object, args: Arguments = (), kwargs: Options | None = None
    ) -> object:
        """Every operation on such tensors ends here."""
        return compute(func, args, kwargs or {})

    def tolist(self) -> list[object]:
        """Allowed on every device."""
        found: list[object] = self.held.tolist()
        return found

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Refused, as on a GPU."""
        raise OtherDevice(_NUMPY)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """The same, asked for by NumPy."""
        raise OtherDevice(_NUMPY)

    def __repr__(self, *_: object, **__: object) -> str:  # type: ignore[override]
        """Values and all."""
        return f"DeviceTensor({self.held!r})"


_NUMPY = "makes a NumPy array of a tensor on the observation's device; call `.cpu()` first"


def compute(function: Function, args: Arguments, kwargs: Options) -> object:
    """An operation: refused where devices are mixed, else done on the CPU and put where it goes."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    on_device = any(isinstance(tensor, DeviceTensor) for tensor in tensors)
    asked = kwargs.get("device")
    wanted = None if asked is None else torch.device(asked)  # type: ignore[call-overload]
    if not on_device and wanted != DEVICE:
        return function(*args, **kwargs)
    if on_device:
        _refuse_mixed(function, args, tensors)
    if wanted in (None, DEVICE):
        _refuse_generator(kwargs.get("generator"))
    elsewhere = wanted is not None and wanted != DEVICE
    options = dict(kwargs) | ({"device": CPU} if wanted == DEVICE else {})
    result = function(*tree_map(_values, args), **tree_map(_values, options))
    if elsewhere or (function in COPIES and not isinstance(args[0], DeviceTensor) and not wanted):
        return args[0] if function is _aten.copy_.default else result
    placed = tree_map(_placed, result)
    return _aliased(function, args, dict(kwargs), placed) if on_device else placed


def _refuse_mixed(function: Function, args: Arguments, tensors: Sequence[torch.Tensor]) -> None:
    """CPU tensors that are more than a scalar have no business beside tensors of the device."""
    if function in COPIES:
        return
    if function in INDEXING:
        tensors = [leaf for leaf in (args[0], *args[2:3]) if isinstance(leaf, torch.Tensor)]
    for tensor in tensors:
        if not isinstance(tensor, DeviceTensor) and tensor.dim():
            shape = "×".join(map(str, tensor.shape))
            raise OtherDevice(
                f"mixes a CPU tensor ({shape}) with tensors on the observation's device in "
                f"{_short(function)}; make it with `device=observation.public.device`"
            )


def _refuse_generator(generator: object) -> None:
    if isinstance(generator, _plain_generator) and _identity(generator) not in _generators:
        raise OtherDevice(
            "draws on the observation's device with a generator of the CPU; make the generator "
            "there, or draw on the CPU and move what was drawn"
        )


def _short(function: Function) -> str:
    return str(function).removeprefix("aten.").partition(".")[0]


def _values(leaf: object) -> object:
    return leaf.held if isinstance(leaf, DeviceTensor) else leaf


def _placed(leaf: object) -> object:
    if isinstance(leaf, DeviceTensor) or not isinstance(leaf, torch.Tensor):
        return leaf
    return DeviceTensor(leaf)


# ------------------------------------------------------------------ what torch makes out of nothing


class _Operations(_python_dispatch.TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Operations without a tensor of the device among their arguments, such as `torch.zeros`."""

    def __torch_dispatch__(
        self, func: Function, types: object, args: Arguments = (), kwargs: Options | None = None
    ) -> object:
        return compute(func, args, kwargs or {})


_FROM_DATA: tuple[Function, ...] = (torch.tensor, torch.as_tensor, torch.asarray)


class _FromData(TorchFunctionMode):
    """Tensors out of Python's numbers, which torch makes without telling anybody."""

    def __torch_function__(
        self, func: Function, types: object, args: Arguments = (), kwargs: Options | None = None
    ) -> object:
        options = dict(kwargs or {})
        if func in _FROM_DATA:
            asked = options.get("device")
            if asked is not None and torch.device(asked) == DEVICE:  # type: ignore[call-overload]
                if isinstance(args[0], DeviceTensor):
                    return args[0].to(options.get("dtype") or args[0].dtype)  # type: ignore[call-overload]
                return _moved(func(*args, **options | {"device": CPU}))
        elif func is torch.Tensor.new_tensor and isinstance(args[0], DeviceTensor):
            return _moved(torch.tensor(*args[1:], **{"dtype": args[0].dtype} | options))  # type: ignore[arg-type]
        return func(*args, **options)


def _moved(tensor: object) -> torch.Tensor:
    assert isinstance(tensor, torch.Tensor)
    return tensor.to(DEVICE)


_plain_generator = torch.Generator
_generators: dict[int, torch.Generator] = {}
"""Those of the device, by what torch knows them by when it hands them on."""


def _identity(generator: torch.Generator) -> int:
    return int(getattr(generator, "_cdata"))  # noqa: B009 (torch does not declare it)


class _DeviceGenerator(torch.Generator):
    """A generator on the device draws on the CPU and says that it is elsewhere."""

    def __new__(cls, device: torch.device | str = "cpu") -> torch.Generator:  # type: ignore[misc]
        if torch.device(device) != DEVICE:
            return _plain_generator(device)
        made = super().__new__(cls)
        _generators[_identity(made)] = made
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return DEVICE


def _inference_mode(mode: bool | Decorated = True) -> object:
    """Without gradients; what else inference mode does, wrapped tensors cannot follow."""
    if callable(mode):
        return torch.no_grad()(mode)
    return torch.no_grad() if mode else torch.enable_grad()


@contextmanager
def device_double() -> Iterator[torch.device]:
    """In this block, `meta` is a device like any other, and mixing it with the CPU is refused."""
    before = torch.inference_mode
    torch.Generator = _DeviceGenerator  # type: ignore[misc, assignment]
    torch.inference_mode = _inference_mode  # type: ignore[assignment, misc]
    try:
        with _FromData(), _Operations():  # type: ignore[no-untyped-call]
            yield DEVICE
    finally:
        torch.Generator = _plain_generator  # type: ignore[misc]
        torch.inference_mode = before  # type: ignore[misc]


# ----------------------------------------------------------------------------- what is moved there


def move_model(model: torch.nn.Module) -> None:
    """Put a model's parameters and buffers onto the device; what was tied stays tied."""
    moved: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                there = torch.nn.Parameter(DeviceTensor(parameter.data), parameter.requires_grad)
                module._parameters[name] = moved.setdefault(id(parameter), there)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = DeviceTensor(buffer)


class MovedPrior:
    """A prior that computes on the CPU and answers on the device."""

    def __init__(self, prior: Prior) -> None:
        self.prior = prior

    def negative_log_likelihood(self, sentences: Sequence[Sequence[int]]) -> torch.Tensor:
        """Mean negative log-likelihood per token of each sentence, (N,)."""
        return self.prior.negative_log_likelihood(sentences).to(DEVICE)

    def sample(self, count: int, max_tokens: int, seed: int) -> list[list[int]]:
        """Sentences drawn from the model."""
        return self.prior.sample(count, max_tokens, seed)

    def sample_many(self, draws: Sequence[tuple[int, int, int]]) -> list[list[list[int]]]:
        """Several samples."""
        return self.prior.sample_many(draws)


def move_public(public: Public) -> Public:
    """What an attack knows beforehand, with a copy of its model on the device."""
    model = copy.deepcopy(public.model)  # the model itself may be the prior, too
    move_model(model)
    prior = None if public.prior is None else MovedPrior(public.prior)
    table = None if public.table is None else public.table.to(DEVICE)
    return replace(public, model=model, prior=prior, device=DEVICE, table=table)
