"""`python -m benchmark.cli`."""

from benchmark.cli.app import main

main()
