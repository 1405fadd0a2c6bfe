"""Surprisal: how unexpected a model finds each word of a text, in bits.

| module | contents |
|---|---|
| `surprisal` | the task type `surprisal`, its examples and its routes |
| `text_pieces` | the division of a text into words and what stands between them |
| `requests` | the request to models that score the words of a text: `score_words` |
| `surprisal_metrics` | bits per word and byte, regions, contrasts, and correlations with measures of people |
| `uniform_bytes` | a model for which all bytes are equally likely, the floor |
| `word_table` | `figeval export RUN --to surprisals`: a line per word |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar, ExporterRegistrar, TaskTypeRegistrar


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """Register the task type, which is imported only for tasks of this type."""
    register(f"{__name__}.surprisal:SurprisalType", "surprisal")


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register the trivial model."""
    register("uniform_bytes", f"{__name__}.uniform_bytes:UniformBytes", "every byte of a text has 8 bits")


@hookimpl
def register_exporters(register: ExporterRegistrar) -> None:
    """Register the table of words."""
    register("surprisals", f"{__name__}.word_table:write_word_table")
