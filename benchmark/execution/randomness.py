"""Seeds the random generators of a process with all bits of a secret seed.

torch's generator on the CPU keeps only 32 bits of what `manual_seed` is given, so few that an
attack could try them all. Here its whole state comes out of a one-way function instead.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

from benchmark.execution.seeds import derive_seed

if TYPE_CHECKING:
    import torch

WORDS = 624
"""Numbers in the state of a Mersenne twister."""
FIRST_WORD = 3
"""Where they begin in torch's state, behind seed, position and flags, 8 bytes each."""
MASK = 2**63 - 1


def seed_process(seed: int) -> None:
    """Seed every generator that code may draw from without being handed one."""
    import numpy as np
    import torch

    random.seed(derive_seed("random", seed))
    np.random.seed([derive_seed("numpy", seed, word) & 0xFFFFFFFF for word in range(8)])
    torch.manual_seed(derive_seed("torch devices", seed) & MASK)  # for other devices than the CPU
    fill(torch.default_generator, derive_seed("torch", seed))


def fill(generator: torch.Generator, seed: int) -> None:
    """Put a generator into a state that takes all bits of the seed to compute."""
    import numpy as np
    import torch

    generator.manual_seed(seed & MASK)
    if generator.device.type != "cpu":
        return  # those take 64 bits
    state = generator.get_state().numpy().view(np.uint64).copy()
    drawn = hashlib.shake_256(str(seed).encode()).digest(4 * WORDS)
    state[FIRST_WORD : FIRST_WORD + WORDS] = np.frombuffer(drawn, dtype="<u4")
    generator.set_state(torch.from_numpy(state.view(np.uint8)))
