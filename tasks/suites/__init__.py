"""One file a suite, each with a `SUITE`; found by the registry."""
