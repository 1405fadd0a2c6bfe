"""Read what a model wrote: the answer that a reply commits itself to, if any."""

VERSION = "4"
"""Of the readers in this package. Records keep it with every answer; raise it when a rule changes an outcome."""
