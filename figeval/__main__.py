"""The entry point of `python -m figeval`."""

from figeval.cli.main import main

main()
