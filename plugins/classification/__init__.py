"""Classification of single texts: one label each (`classification`), or any number of them (`multilabel`).

| module | what it holds |
|---|---|
| `classification` `multilabel` | a task type each: examples and routes |
| `replies` | the labels that a reply lists |
| `requests` | what both ask models that were made for it: `label_texts` |
| `metrics` | F1 of the positive class, area under the ROC curve, and the metrics of sets of labels |
| `command` | `figeval labels`: precision, recall and F1 of every label of stored runs |

The models that answer `label_texts` are in other families: the head (`heads.classifier`, which `encoders.classifier`
reads), TF-IDF with a logistic regression (`lexical.tfidf_logreg`), and the baselines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    import click

    from figeval.hooks import TaskTypeRegistrar


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """One label, and several."""
    register(f"{__name__}.classification:Classification", "classification")
    register(f"{__name__}.multilabel:Multilabel", "multilabel")


@hookimpl
def register_commands(cli: click.Group) -> None:
    """`figeval labels`."""
    from .command import labels

    cli.add_command(labels)
