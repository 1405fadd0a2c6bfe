"""Flags in, text out: one file per command, heavy imports inside them."""
