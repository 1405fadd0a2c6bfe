"""Benchmarks: each folder is one plugin, registered through the same hooks as a third-party plugin."""
