"""Labelling: a label for each word of a text, such as which of its words are meant figuratively.

| module | what it holds |
|---|---|
| `labelling` | the task type `labelling`, its examples and its routes |
| `tags` | how tags (BIO or plain) are read as chunks, after conlleval |
| `metrics` | F1 of chunks and words from counts; ties in expectation |
| `replies` | what a language model quotes, aligned with the words of the text |
| `nothing` | what says in a reply that there is nothing to be quoted |
| `expressions` | which stretches of a text are expressions of the training split, up to inflection |
| `floors` | trivial models |
| `tagger` | token-classification models of transformers; `plugins/heads` trains them |
| `columns` | files with a word and a tag per line |

Benchmarks import `columns` and `expressions` by these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar, SourceRegistrar, TaskTypeRegistrar


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """The type, imported for tasks of it."""
    register(f"{__name__}.labelling:Labelling", "labelling")


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """`conll:FILE` beside a task file."""
    register("conll", f"{__name__}.columns:open_columns")


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Trivial models, and token-classification checkpoints."""
    floors = f"{__name__}.floors"
    register("chance_label", f"{floors}:ChanceLabel", "every label of a word alike; ties scored by expectation")
    register("no_label", f"{floors}:NoLabel", "labels no word at all")
    register("frequent_label", f"{floors}:FrequentLabel", "each word's most frequent label in the training split")
    register("seen_expressions", f"{floors}:SeenExpressions", "the expressions of the training split, up to inflection")
    register("tagger", f"{__name__}.tagger:tagger", "a label for each word: a token-classification checkpoint")
