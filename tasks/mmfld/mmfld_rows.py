"""Reader of MMFLD: e.g. `mmfld:idiom` for all languages of a form, `mmfld:idiom_de` and `mmfld:hyperbole_en_train`.

A file has one text per line; the name of the file gives the label. The files of a form are merged so that the first
rows, for any `--limit`, have languages and labels in proportion. Texts are given as published: byte order marks within
them and texts with both labels (README.md counts them) are kept, so that figures stay comparable with other people's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from figeval.data import DataContext, Row
from figeval.data.text_files import text_lines
from figeval.errors import DataError
from figeval.io.text import near
from figeval.language.words import letters

LOCALES = {"de": "de_DE", "en": "en_XX", "es": "es_XX", "fa": "fa_IR", "it": "it_IT", "ru": "ru_RU", "zh": "zh_CN"}
FORMS = {  # form → its languages
    "hyperbole": ("en", "zh"),
    "idiom": ("de", "en", "es", "it"),
    "metaphor": ("en", "es", "fa", "ru"),
    "simile": ("en", "zh"),
}
LABELS = ("literal", "figurative")  # in the order of the numbers in file names
TRAIN = "hyperbole_en_train"
# Line n of one file and line n of the other are mostly a sentence and its paraphrase, so they are not independent.
PARALLEL = frozenset({("hyperbole", "en"), ("simile", "en")})


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Return the rows of a form, in all languages or one, or of the train split. Raises `DataError` for other paths."""
    if path == TRAIN:
        return merge_files([("hyperbole", "en", "train", number) for number in range(len(LABELS))], context)
    form, _, language = path.partition("_")
    if form not in FORMS:
        names = [*FORMS, TRAIN]
        raise DataError(f"mmfld has no form {form!r:.40}{near(form, names)}; it has {', '.join(names)}")
    if language and language not in FORMS[form]:
        problem = "is not one of its languages" if language not in LOCALES else f"has no texts with the form {form}"
        raise DataError(
            f"mmfld: the language {language!r:.40} {problem}{near(language, FORMS[form])}; {form} is available in "
            f"{', '.join(FORMS[form])}"
        )
    languages = (language,) if language else FORMS[form]
    return merge_files([(form, code, "test", number) for code in languages for number in range(len(LABELS))], context)


def merge_files(files: Sequence[tuple[str, str, str, int]], context: DataContext) -> Iterator[Row]:
    """Merge the rows of several files (form, language, split, label number) by relative position in their file."""
    tables = [list(file_rows(*file, context)) for file in files]
    positioned = [((index + 0.5) / len(table), row) for table in tables for index, row in enumerate(table)]
    positioned.sort(key=lambda positioned_row: positioned_row[0])  # stable: ties go to the first file
    return (row for _, row in positioned)


def file_rows(form: str, language: str, split: str, number: int, context: DataContext) -> Iterator[Row]:
    """Yield the rows of one file.

    `item` is equal for rows that are not independent: it has the line number if the files are parallel. Otherwise, it
    is a digest of the letters, which identifies repeated texts without revealing them.
    """
    path = context.fetch("mmfld", f"data/{split}_{LOCALES[language]}_{form}.{number}")
    for line, text in enumerate(text_lines(path), start=1):
        stripped = text.rstrip("\r\n")
        digest = blake2b(letters(stripped).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        yield {
            "id": f"{language}:{form}:{split}:{number}:{line}",
            "text": stripped,
            "label": LABELS[number],
            "form": form,
            "language": language,
            "item": f"{language}:{split}:{line}" if (form, language) in PARALLEL else digest,
        }
