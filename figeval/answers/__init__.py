"""Readers of model replies, which find the answer that a reply commits itself to, if any."""

VERSION = "5"
"""Version of these readers. Records keep it with every answer; raise it when a rule changes an outcome."""
