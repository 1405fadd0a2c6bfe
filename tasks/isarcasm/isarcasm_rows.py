"""Reader of iSarcasmEval: `isarcasm:a_en`, `a_ar`, `b_en`, `c_en` and `c_ar`, each also with the suffix `_train`.

The labels are those of the texts' own authors; test rows of A also have the votes of other people. Rows are in file
order. The train files serve all subtasks: A asks whether a text is sarcastic, B asks for its types (texts that are not
sarcastic have none), and C asks which of two texts is sarcastic and which is its author's rephrasing without sarcasm.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path

from figeval.data import DataContext, Row
from figeval.data.row_files import read_rows
from figeval.errors import DataError
from figeval.io.text import near
from figeval.language.words import letters

LANGUAGES = {"en": "En", "ar": "Ar"}
PEOPLE = 5  # who voted on each text
TYPES = ("sarcasm", "irony", "satire", "understatement", "overstatement", "rhetorical_question")
SARCASTIC = {"1": "sarcastic", "0": "not_sarcastic"}
PARTS = tuple(
    f"{part}{split}" for part in ("a_en", "a_ar", "b_en", "c_en", "c_ar") for split in ("", "_train")
)  # B exists in English only


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows of a part. Raises `DataError` if no part has that name."""
    subtask, _, rest = path.partition("_")
    language = rest.removesuffix("_train")
    if path not in PARTS:
        if subtask in READERS and language not in LANGUAGES:
            raise DataError(f"isarcasm: unknown language {language!r:.40}; it has {', '.join(LANGUAGES)}")
        raise DataError(f"isarcasm has no part {path!r:.60}{near(path, PARTS)}; it has {', '.join(PARTS)}")
    split = "train" if rest.endswith("_train") else "test"
    name = LANGUAGES[language]
    file = f"train/train.{name}.csv" if split == "train" else f"test/task_{subtask.upper()}_{name}_test.csv"
    source = context.fetch("isarcasm", file)
    votes_by_text = _votes_by_text(language, context.fetch) if (subtask, split) == ("a", "test") else {}
    for number, row in enumerate(read_rows(source, "csv"), start=1):
        fields = READERS[subtask](row, split, f"{source}, row {number}")
        if fields is not None:
            votes_of_text = votes_by_text.get(letters(fields["text"])) if subtask == "a" else None
            yield {
                "id": f"{language}:{split}:{number}",
                "dialect": row.get("dialect"),
                "votes": votes_of_text,
                **fields,
            }


def _one_label(row: Row, split: str, location: str) -> Row | None:
    """Return a row of A, a text and its label, or None for the one train row without a text."""
    text = row["text"] if "text" in row else row["tweet"]
    if split == "train" and not text.strip():
        return None
    return {
        "text": text,
        "label": _look_up(SARCASTIC, row["sarcastic"], f"{location}, column 'sarcastic'"),
        "item": item(text),
    }


def _types(row: Row, split: str, location: str) -> Row | None:
    """Return a row of B, a text and its types, or None for a train row without a text."""
    if split == "train" and not row["tweet"].strip():
        return None
    yes = {"1": True, "0": False, **({"": False} if row.get("sarcastic") == "0" else {})}
    types = [name for name in TYPES if _look_up(yes, row[name], f"{location}, column {name!r}")]
    text = row["text"] if "text" in row else row["tweet"]
    return {"text": text, "labels": types, "item": item(text)}


def _two_texts(row: Row, split: str, location: str) -> Row | None:
    """Return a row of C, two texts and the index of the sarcastic one, or None for a train row without both.

    In train, the sarcastic text comes second if its length is odd.
    """
    if split == "test":
        indices = {"0": 0, "1": 1}
        gold = _look_up(indices, row["sarcastic_id"], f"{location}, column 'sarcastic_id'")
        options = [row["text_0"], row["text_1"]]
    elif row["sarcastic"] == "1" and row["rephrase"].strip() and (text := row.get("text") or row.get("tweet") or ""):
        gold = len(text) % 2
        options = [row["rephrase"], text] if gold else [text, row["rephrase"]]
    else:
        return None
    return {"options": options, "gold": gold, "item": item(*sorted(options))}


READERS: Mapping[str, Callable[[Row, str, str], Row | None]] = {"a": _one_label, "b": _types, "c": _two_texts}


def _look_up(meanings: Mapping[str, object], value: str, location: str) -> object:
    """Return the meaning of a cell. Raises `DataError` for an unknown value."""
    if value not in meanings:
        raise DataError(
            f"{location}: {value!r:.40} is not one of {', '.join(map(repr, meanings))}; is the file complete?"
        )
    return meanings[value]


def item(*texts: str) -> str:
    """Return a digest of the letters of texts, which identifies repeated texts without revealing them."""
    content = "\0".join(map(letters, texts))
    return blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _votes_by_text(language: str, fetch: Callable[[str, str], Path]) -> Mapping[str, Mapping[str, int]]:
    """Return the votes on each text of A for both labels, by its letters; those of repeated texts are added up."""
    votes_by_text: dict[str, Counter[str]] = defaultdict(Counter)
    for row, (share,) in votes("a", language, fetch):
        sarcastic = round(share * PEOPLE)
        votes_by_text[letters(row["text"])].update({"sarcastic": sarcastic, "not_sarcastic": PEOPLE - sarcastic})
    return votes_by_text


def votes(subtask: str, language: str, fetch: Callable[[str, str], Path]) -> Iterator[tuple[Row, tuple[float, ...]]]:
    """Yield the annotated rows of A or C, with the share of five people who took each text for sarcastic."""
    name = {"en": "english", "ar": "arabic"}[language]
    for row in read_rows(fetch("isarcasm", f"third-party annotations/{name}_task_{subtask}.csv"), "csv"):
        if subtask == "a":
            yield row, (int(row["#humans_sarcasm"]) / PEOPLE,)
        else:
            share = int(row["human_votes"]) / PEOPLE  # of the text that most people chose
            yield row, (1 - share, share) if row["human_aggregated"] == "1" else (share, 1 - share)
