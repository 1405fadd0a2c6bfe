"""Requests → outputs: what a model can do, and how a window of examples talks to it in batches."""
