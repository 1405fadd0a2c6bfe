"""Features around a run, each in a folder with its command, its Python function, its records, its tables and its pages.

A wing is a plugin: its `__init__` registers what it offers, and nothing else imports it. Without its folder, everything
else works (`docs/wings.md`).
"""
