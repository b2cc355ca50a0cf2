"""How a submission with parameters is called: `name[key=value,...]`, combinations by `+`."""

from __future__ import annotations

from collections.abc import Mapping

from benchmark.spec import Scalar


def variant(name: str, parameters: Mapping[str, Scalar]) -> str:
    """`name[key=value,...]`: a submission with the parameters that differ from its defaults."""
    if not parameters:
        return name
    if "+" in name:  # a combination, whose parameters bear the name of their part
        return "+".join(variant(n, part_parameters(n, parameters)) for n in name.split("+"))
    return f"{name}[{','.join(f'{key}={value}' for key, value in sorted(parameters.items()))}]"


def part_parameters(part: str, parameters: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The parameters of one part of a combination, `<part>.<key>`, without its name."""
    start = f"{part}."
    return {k.removeprefix(start): v for k, v in parameters.items() if k.startswith(start)}
