"""Fixtures of the tests of wings: the command line, and servers for models behind an API."""

from tests.cli.conftest import cli
from tests.plugins.conftest import desk, no_keys

__all__ = ["cli", "desk", "no_keys"]
