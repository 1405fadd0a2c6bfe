"""Classification of single texts: one label each (`classification`), or any number of them (`multilabel`).

| module | contents |
|---|---|
| `classification` `multilabel` | one task type each: examples and routes |
| `replies` | parsing of the labels that a reply lists |
| `requests` | the request of both to models trained for it: `label_texts` |
| `metrics` | F1 of the positive class, area under the ROC curve, and metrics of sets of labels |
| `labels` | `figeval show RUN --labels`: precision, recall and F1 of every label of stored runs |

The models that answer `label_texts` are in other families: the head (`heads.classifier`, which `encoders.classifier`
reads), TF-IDF with logistic regression (`lexical.tfidf_logreg`), and the baselines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import RunViewRegistrar, TaskTypeRegistrar


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """Register the task types for one label and for several."""
    register(f"{__name__}.classification:Classification", "classification")
    register(f"{__name__}.multilabel:Multilabel", "multilabel")


@hookimpl
def register_run_views(register: RunViewRegistrar) -> None:
    """Register `figeval show RUN --labels`."""
    register("labels", f"{__name__}.labels:LabelScores", "precision, recall and F1 of every label (classification).")
