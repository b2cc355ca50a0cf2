"""Gradient matching: find the input whose gradient is the one that was observed.

Read from the inside out: `gradients` (a gradient as a sum of outer products), `layers` (which
products each layer type makes), `distances` (DLG, TAG and cosine on such gradients), `matcher` with
its two ways `traced` and `plain`, `problem` (what is known about one snapshot), `search` (the steps
that attacks are written in), `attack` (the class that attacks derive from).
"""
