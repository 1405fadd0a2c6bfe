"""Labelling: a label for each word of a text, e.g. whether it is meant figuratively.

| module | contents |
|---|---|
| `labelling` | the task type `labelling`, its examples and its routes |
| `requests` | the request to models that label words: `label_words` |
| `tags` | the reading of tags (BIO or plain) as chunks, after conlleval |
| `metrics` | F1 of chunks and words from counts; ties in expectation |
| `replies` | the quotations of a language model, aligned with the words of the text |
| `expressions` | the stretches of a text that are expressions of the training split, up to inflection |
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
    """Register the task type, which is imported only for tasks of this type."""
    register(f"{__name__}.labelling:Labelling", "labelling")


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register `conll:FILE`, a source beside a task file."""
    register("conll", f"{__name__}.columns:open_columns")


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register the trivial models, and token-classification checkpoints."""
    floors = f"{__name__}.floors"
    register("chance_label", f"{floors}:ChanceLabel", "all labels of a word tied; ties scored by expectation")
    register("no_label", f"{floors}:NoLabel", "labels no word at all")
    register("frequent_label", f"{floors}:FrequentLabel", "each word's most frequent label in the training split")
    register("seen_expressions", f"{floors}:SeenExpressions", "the expressions of the training split, up to inflection")
    register("tagger", f"{__name__}.tagger:tagger", "a label for each word: a token-classification checkpoint")
