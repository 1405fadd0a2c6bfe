"""Benchmarks: each folder is one plugin, registered through the hooks that a third party uses."""
