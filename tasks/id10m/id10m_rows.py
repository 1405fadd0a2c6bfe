"""Reader of ID10M's files: the rows of `id10m:test_en`, `id10m:dev_en` and those of the other languages.

The files have a word and its tag per line; the space that follows most words is removed. Models are trained on the dev
files here. If a language has one, the rows of its test file say which stretches are expressions of the dev file
(`seen`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from figeval.builtin.plugins.labelling.columns import sentences
from figeval.builtin.plugins.labelling.expressions import Expressions, digest
from figeval.builtin.plugins.labelling.tags import chunks
from figeval.data import DataContext, Row
from figeval.errors import DataError
from figeval.io.text import near

LANGUAGES = {"en": "english", "de": "german", "es": "spanish", "it": "italian"}
TRAINED_ON = ("en", "de")
FILES = {
    **{f"test_{code}": f"test_{name}" for code, name in LANGUAGES.items()},
    **{f"dev_{code}": f"dev_{LANGUAGES[code]}" for code in TRAINED_ON},
}


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Yield the sentences of a file: id (`test_en:1`), tokens, tags, seen, expression.

    `expression` is a digest of the lemmas of the first idiom, or None if there is no idiom: sentences with the same
    idiom are not independent of each other. `seen` is None in dev files and in languages without a dev file.

    Raises:
        DataError: there is no file of that name.
    """
    if path not in FILES:
        raise DataError(f"id10m has no file {path!r}{near(path, FILES)}; it has {', '.join(FILES)}")
    split, _, language = path.partition("_")
    known_idioms = None
    if split == "test" and language in TRAINED_ON:
        known_idioms = expressions(fetch(f"dev_{language}", context), language)
    counts: Counter[str] = Counter()
    for number, sentence in enumerate(sentences(fetch(path, context), counts), start=1):
        spans = chunks(sentence.tags)
        yield {
            "id": f"{path}:{number}",
            "tokens": sentence.words,
            "tags": sentence.tags,
            "seen": known_idioms and known_idioms.stretches(sentence.words),
            "expression": digest(sentence.words[spans[0].start : spans[0].end], language) if spans else None,
        }
    context.notes.update(counts)


def fetch(name: str, context: DataContext) -> Path:
    """Return the local copy of a file."""
    language = LANGUAGES[name.partition("_")[2]]
    return context.fetch("id10m", f"resources/bio_format/{language}/{FILES[name]}.tsv")


@lru_cache(maxsize=len(TRAINED_ON))
def expressions(path: Path, language: str) -> Expressions:
    """Return the idioms of a dev file, which is read once per process, on first use."""
    idioms = Expressions(language)
    for sentence in sentences(path):
        idioms.add(sentence.words, sentence.tags)
    return idioms
