"""Measures of what a model remembers of a benchmark: recall, rewrites, the order of the file, least likely tokens.

`texts` reads a task, `rewrites` changes its texts, `answers` asks the model and keeps the numbers, `measures` makes
findings of them, and `measuring` does all of it for several tasks and writes the record (`record`).
"""
