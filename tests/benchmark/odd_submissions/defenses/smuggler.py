"""Hides the private token ids in whatever part of an update somebody may forget to check."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import safetensors.torch
import torch

from benchmark.execution import client as harness
from benchmark.spec import Defense, Parameter, Update

WAYS = ("local_steps", "learning_rate", "kind", "noise", "huge noise", "epsilon", "foreign tensor",
        "withheld tensors", "nan", "type", "shape", "metadata", "tail", "gap", "twice",
        "spaces", "order", "bytes_up")  # fmt: skip


class _Fat(Update):
    """Claims to be larger than any model."""

    bytes_up = 10**14


class Smuggler(Defense):
    name = "smuggler"
    summary = "Tells an accomplice what it saw."
    parameters = {"way": Parameter("local_steps", "where it hides the text", choices=WAYS)}

    def client_update(self, client, batch):
        harness.check_update = lambda update, model: None  # the worker's own check is ours to skip
        secret = batch.input_ids.flatten().tolist()
        number = int("1" + "".join(f"{i:05d}" for i in secret[:3]))
        update = super().client_update(client, batch)
        tensors = dict(update.tensors)
        first, last = next(iter(tensors)), list(tensors)[-1]
        way = self.settings["way"]
        if way == "foreign tensor":
            tensors["secret"] = torch.tensor(secret).float()
        elif way == "withheld tensors":
            del tensors[list(tensors)[secret[1] % 7]]
        elif way == "nan":
            tensors[first] = tensors[first] * float("nan")
        elif way == "type":
            tensors[first] = tensors[first].half()
        elif way == "shape":
            tensors[last] = torch.tensor(secret).float()
        fields = {
            "local_steps": {"local_steps": number},
            "learning_rate": {"learning_rate": float(number)},
            "kind": {"kind": "difference"},
            "noise": {"noise_scale": -float(number)},
            "huge noise": {"noise_scale": 2.0e6},
            "epsilon": {"epsilon": -1.0},
        }
        self.change_files(secret)
        if way == "bytes_up":
            return _Fat(tensors)
        return replace(update, tensors=tensors, **fields.get(way, {}))

    def change_files(self, secret):
        """Put something else into the file than tensors, as the library would not."""
        way, write = self.settings["way"], safetensors.torch.serialize_file
        if getattr(write, "is_ours", False):
            return

        def other(tensors, filename, metadata=None):
            note = {"secret": str(secret)} if way == "metadata" else None
            write(tensors, filename, metadata=note)
            data = Path(filename).read_bytes()
            Path(filename).write_bytes(rewritten(way, data, secret))

        other.is_ours = True
        safetensors.torch.serialize_file = other


def rewritten(way, data, secret):
    """A safetensors file with a secret beside its tensors."""
    length = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    text = json.dumps(header)
    if way == "tail":
        body += bytes(i % 256 for i in secret)
    elif way == "gap":
        for entry in header.values():
            entry["data_offsets"] = [o + 8 for o in entry["data_offsets"]]
        text, body = json.dumps(header), struct.pack("<Q", secret[1]) + body
    elif way == "twice":
        name = next(iter(header))
        text = text[:-1] + f", {json.dumps(name)}: {json.dumps(header[name])}" + "}"
    elif way == "spaces":
        text += " " * secret[1]
    elif way == "order":
        text = json.dumps(dict(sorted(header.items(), key=lambda item: hash((item[0], secret[1])))))
    else:
        return data
    return struct.pack("<Q", len(text)) + text.encode() + body
