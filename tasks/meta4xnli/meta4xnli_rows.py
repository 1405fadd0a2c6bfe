"""Reader of the detection files of Meta4XNLI and CoMeta: `meta4xnli:test_en`, `meta4xnli:cometa_train` and so on.

The rows of a test or dev file say which stretches are metaphors of the training file of the same data (`seen`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from figeval.builtin.plugins.labelling.columns import sentences
from figeval.builtin.plugins.labelling.expressions import Expressions
from figeval.builtin.plugins.labelling.tags import chunks
from figeval.data import DataContext, Row
from figeval.errors import DataError
from figeval.io.text import near

SPLITS = "data/meta4xnli/detection/splits"
FILES = {  # name → (path, language, file of the training split)
    **{
        f"{split}_{language}": (f"{SPLITS}/{language}/meta4xnli_{split}.tsv", language, f"train_{language}")
        for language in ("en", "es")
        for split in ("test", "dev", "train")
    },
    **{f"cometa_{split}": (f"data/cometa/cometa_{split}.tsv", "es", "cometa_train") for split in ("test", "train")},
}


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Yield the sentences of a file: id (`test_en:1`), tokens, tags, seen, metaphors.

    `metaphors` is the number of metaphors, for breakdowns. `seen` is None in training files.

    Raises:
        DataError: there is no file of that name.
    """
    if path not in FILES:
        raise DataError(f"meta4xnli has no file {path!r}{near(path, FILES)}; it has {', '.join(FILES)}")
    file, language, training = FILES[path]
    known_metaphors = (
        None if path == training else expressions(context.fetch("meta4xnli", FILES[training][0]), language)
    )
    counts: Counter[str] = Counter()
    for number, sentence in enumerate(sentences(context.fetch("meta4xnli", file), counts), start=1):
        yield {
            "id": f"{path}:{number}",
            "tokens": sentence.words,
            "tags": sentence.tags,
            "seen": known_metaphors and known_metaphors.stretches(sentence.words),
            "metaphors": len(chunks(sentence.tags)),
        }
    context.notes.update(counts)


@lru_cache(maxsize=len(FILES))
def expressions(path: Path, language: str) -> Expressions:
    """Return the metaphors of a training file, which is read once per process, on first use."""
    metaphors = Expressions(language)
    for sentence in sentences(path):
        metaphors.add(sentence.words, sentence.tags)
    return metaphors
