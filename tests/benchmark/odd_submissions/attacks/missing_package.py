"""Needs what is not installed."""

import no_such_package  # noqa: F401
