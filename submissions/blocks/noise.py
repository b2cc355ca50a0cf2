"""Random numbers that cannot be told from others of the same generator.

Where a gradient is zero, as in the rows of unused words, an attack sees a defense's noise itself.
From some thousand numbers of torch's generator on the CPU, a Mersenne twister, it could compute all
others and subtract them. So the generator only draws a key, and a one-way function does the rest.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Generator, Tensor

CHUNK = 1 << 20
"""Numbers that are made at once."""
KEY_WORDS = 4


def uniform_like(tensor: Tensor, generator: Generator) -> Tensor:
    """Double-precision numbers between 0 and 1, both excluded, in the shape of a tensor."""
    parts = list(_uniform(tensor.numel(), generator, tensor.device))
    return torch.cat(parts or [tensor.new_empty(0).double()]).view(tensor.shape)


def normal_like(tensor: Tensor, generator: Generator) -> Tensor:
    """Numbers of a standard normal distribution in the shape and type of a tensor."""
    size = tensor.numel()
    parts = [_box_muller(part) for part in _uniform(size + size % 2, generator, tensor.device)]
    drawn = torch.cat(parts or [tensor.new_empty(0)])[:size]
    return drawn.view(tensor.shape).to(tensor.dtype)


def _box_muller(uniform: Tensor) -> Tensor:
    first, second = uniform.view(-1, 2).unbind(1)
    radius, angle = (-2.0 * first.log()).sqrt(), 2.0 * math.pi * second
    return torch.stack((radius * angle.cos(), radius * angle.sin()), dim=1).flatten()


def _uniform(size: int, generator: Generator, device: torch.device) -> Iterator[Tensor]:
    """Double-precision numbers in parts, from 32 bits each; the generator moves by one key."""
    words = torch.randint(
        -(2**63), 2**63 - 1, (KEY_WORDS,), generator=generator, device=generator.device
    )
    key = b"".join(word.to_bytes(8, "little", signed=True) for word in words.tolist())
    for start in range(0, size, CHUNK):
        count = min(CHUNK, size - start)
        stream = hashlib.shake_128(key + start.to_bytes(8, "little")).digest(4 * count)
        bits = torch.frombuffer(bytearray(stream), dtype=torch.int32).to(device)
        yield (bits.double() + (2.0**31 + 0.5)) / 2.0**32
