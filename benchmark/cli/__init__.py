"""The `leakboard` command."""

from benchmark.cli.app import app, main

__all__ = ["app", "main"]
