"""Fixtures of the tests of wings: servers for models behind an API."""

from tests.plugins.conftest import desk, no_keys

__all__ = ["desk", "no_keys"]
