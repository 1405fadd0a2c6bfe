"""The words of options that decide how a language model's texts are read and written."""

from __future__ import annotations

SCORING = ("auto", "packed", "rows")  # how texts are read to be scored (`engine.self_test`)
WRITING = ("auto", "own", "generate", "continuous", "static")  # in which way texts are written (`generation.ways`)
