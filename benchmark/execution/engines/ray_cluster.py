"""Joining a Ray cluster and leaving its slots: what the engine asks of Ray itself."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from typing import Any

from benchmark.errors import UserError

CLOSE_SECONDS = 10.0
PROBE_SECONDS = 10.0


def connect(address: str | None) -> bool:
    """Join a cluster, or start one of this machine alone; whether that was for us to do."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # of a cluster that is started for the run
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # a lost node is told in one sentence
    try:
        import ray
    except ImportError:
        raise UserError(
            "--engine ray needs Ray, which is not installed; `pip install 'leakboard[cluster]'`."
        ) from None
    if ray.is_initialized():
        return False
    _probe(address)
    try:
        ray.init(
            address=address, log_to_driver=False, logging_level=logging.CRITICAL,
            include_dashboard=None if address or "RAY_ADDRESS" in os.environ else False,
        )  # fmt: skip
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(
            f"No Ray cluster can be joined at {address or 'this machine'}: "
            f"{first_sentence(error)}; `ray start` makes this machine a node."
        ) from error
    return True


def _probe(address: str | None) -> None:
    """Refuse an address where nobody answers: Ray itself would try for minutes."""
    if address is None or address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise UserError(
            f"--address {address} is not host:port; run the command on a node of the cluster."
        )
    try:
        socket.create_connection((host, int(port)), timeout=PROBE_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"No Ray cluster answers at {address} ({error}); `ray start` on its machines, or give "
            "another --address."
        ) from error


def living_nodes() -> list[dict[str, Any]]:
    """The nodes that Ray believes to be there, as it describes them."""
    import ray

    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def is_alive(identity: str) -> bool:
    """Whether Ray believes a node to be there."""
    return any(found["NodeID"] == identity for found in living_nodes())


def close_slots(actors: Sequence[Any]) -> None:
    """Let slots remove their folders, and end them whether they have or not."""
    import ray

    closing = [actor.close.remote() for actor in actors]
    if closing:
        ray.wait(closing, num_returns=len(closing), timeout=CLOSE_SECONDS)
    for actor in actors:
        ray.kill(actor)


IN_CREATION = "raised in its creation task"
"""What Ray says of a slot that could not start; what was raised is the last line of a traceback."""


def first_sentence(error: BaseException) -> str:
    """The line that tells what went wrong, without Ray's traceback."""
    cause = getattr(error, "cause", None) or error
    lines = [line for line in str(cause).strip().splitlines() if line.strip()]
    line = lines[-1 if IN_CREATION in lines[0] else 0] if lines else type(cause).__name__
    return line.strip().rstrip(".:")[:300]
