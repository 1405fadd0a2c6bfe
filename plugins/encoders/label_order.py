"""A check of NLI heads: a sentence follows from itself, so a head that says otherwise may have its labels mixed up.

Checkpoints that number their classes in another order than their config says are read without an error, and every
score is then of the wrong label. A dozen pairs of identical sentences show it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from figeval.io.observer import within
from figeval.models.capabilities import Outputs
from figeval.types import PairLabel

from ..torch_models.checkpoint import Checkpoint, load_json

ENTAILMENT = "entailment"
OTHER_LABELS = frozenset({"non-entailment", "neutral", "contradiction"})
SENTENCES = (  # plain ones, in several languages, because a head may know only one of them
    "The children are playing in the garden behind the house.",
    "A man is reading a newspaper on the train.",
    "The shop was closed on Monday.",
    "Two dogs ran across the wet field.",
    "She has lived in this town for ten years.",
    "Die Frau kauft auf dem Markt frisches Brot.",
    "Le train est parti à huit heures du matin.",
    "El perro duerme debajo de la mesa.",
    "他昨天在学校里看书。",
    "彼女は毎朝公園を散歩します。",
    "Мальчик пьёт воду на кухне.",
    "الطفل يقرأ كتابا في البيت.",
)


def may_be_mixed_up(checkpoint: Checkpoint, names: Mapping[int, str], declared: str | None) -> bool:
    """Return whether the classes of a head may mean something else than they are taken to mean.

    Not those of a model that figeval trained, unless its record has other names than its config, or `labels=` says
    what they mean: it may have learnt from a task in which a text does not entail itself.
    """
    about = checkpoint.declared.get("about")
    if declared or checkpoint.folder is None or not (isinstance(about, dict) and about.get("task")):
        return True
    record = load_json(checkpoint.folder / "training" / "record.json") or {}
    head = record.get("head")
    trained_classes = head.get("classes") if isinstance(head, dict) else None
    return trained_classes is not None and trained_classes != list(names.values())


def label_order_warnings(
    model: str,
    classes: Mapping[str, Sequence[int]],
    label_pairs: Callable[[Sequence[PairLabel]], Outputs[Any]],
) -> list[str]:
    """Return a warning if an NLI head does not mostly say that a sentence entails itself.

    Args:
        model: the head's name.
        classes: the class numbers of each label; heads with labels other than those of NLI are not asked.
        label_pairs: the head.
    """
    other_labels = set(classes) - {ENTAILMENT}
    if ENTAILMENT not in classes or not other_labels or not other_labels <= OTHER_LABELS:
        return []
    labels = tuple(classes)
    with within(None):  # these pairs are no part of the call whose progress is shown
        outputs = label_pairs([PairLabel(sentence, sentence, labels) for sentence in SENTENCES])
    answers = Counter(label for scores in outputs.values if (label := _most_probable(scores)) is not None)
    if not answers or answers[ENTAILMENT] > max(answers[label] for label in other_labels):
        return []
    counts = ", ".join(f"{count} {label}" for label, count in answers.most_common())
    numbers = ";".join(f"{label}:{'+'.join(map(str, numbers))}" for label, numbers in classes.items())
    return [
        f"{model} does not say that a sentence entails itself (of {answers.total()} pairs of identical sentences: "
        f"{counts}), so its labels may be in another order than 'labels={numbers}', as they are read now; if its "
        "documentation says so, give the right one with --model_args"
    ]


def _most_probable(scores: Mapping[str, float | tuple[float, ...]]) -> str | None:
    """Return the label with the most probable class, or None if the head's outputs are no numbers."""
    best = {label: max(score) if isinstance(score, tuple) else score for label, score in scores.items()}
    return None if any(map(math.isnan, best.values())) else max(best, key=lambda label: best[label])
