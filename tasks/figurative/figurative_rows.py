"""Readers of three data sets: `flute:{train,dev,test}`, `figqa:{train,dev,test}` and `fignli:{metaphor,simile}`.

FLUTE's training and development rows are questions in natural language, from which the two sentences are extracted; its
test rows are the four files with gold labels. Rows about the same idiom or sentence share a cluster. The irony part of
Figurative-NLI consists of tweets, which `fignli:published_irony` reads from a user's copy of the repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from figeval.data import DataContext, Row
from figeval.data.row_files import read_rows
from figeval.errors import DataError, MissingCopy
from figeval.io.text import near
from figeval.language.words import letters

FIGURES = ("idiom", "metaphor", "sarcasm", "simile")
FLUTE_LABELS = {"Entailment": "entailment", "Contradiction": "contradiction"}
ANSWERS = {"Entails": "entailment", "Contradicts": "contradiction"}
QUESTION = re.compile(
    r'Does the sentence "(.*)" entail or contradict the sentence "(.*)"\? Please answer .*', re.DOTALL
)
ANSWER = re.compile(r"(Entails|Contradicts)\.\s*(.*)", re.S)
SPLITS = {"train": "FLUTEfinaltrain.json", "dev": "FLUTEfinalval.json"}
FIGQA = {"train": "train_xl.csv", "dev": "dev.csv", "test": "test.csv"}
LABEL_INDICES = {"0": 0, "1": 1, "-1": None}  # -1: hidden
IRONIC = {"True": "entailment", "False": "not_entailment"}
CURE = (
    "give the folder with your copy of the repository https://github.com/tuhinjubcse/Figurative-NLI as "
    "--data fignli=FOLDER"
)


def flute(path: str, context: DataContext) -> Iterator[Row]:
    """Yield FLUTE's rows. Raises `DataError` for an unknown split, or a row without two sentences and a label."""
    require_part(path, "flute", [*SPLITS, "test"])
    if path != "test":
        file = context.fetch("flute", SPLITS[path])
        for number, row in enumerate(read_rows(file)):
            location = f"flute: {file}, row {number}"
            question, answer = (
                _match_text(row, location, name, form) for name, form in (("en1", QUESTION), ("en2", ANSWER))
            )
            label, explanation = ANSWERS[answer[1]], answer[2]
            yield flute_row(f"{path}-{number}", question[1], question[2], label, explanation, {})
        return
    for figure in FIGURES:
        file = context.fetch("flute", f"testgolddata/{figure}_test.jsonl")
        for number, row in enumerate(read_rows(file)):
            premise, hypothesis, label, explanation = _texts(row, f"flute: {file}, row {number}")
            if label not in FLUTE_LABELS:
                raise DataError(f"flute: {file}, row {number}, field 'label': {label!r:.40} is neither of the labels")
            details = {"figure": figure, "idiom": row.get("idiom")}
            yield flute_row(f"{figure}-{number}", premise, hypothesis, FLUTE_LABELS[label], explanation, details)


def flute_row(
    name: str, premise: str, hypothesis: str, label: str, explanation: str, details: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one row; its `answer` is the label as a word, followed by the explanation."""
    return {
        "id": name,
        "premise": premise,
        "hypothesis": hypothesis,
        "label": label,
        "answer": f"{label.capitalize()}. {explanation}",
        "figure": details.get("figure") or "unknown",
        "cluster": _digest(details.get("idiom") or premise),
    }


def figqa(path: str, context: DataContext) -> Iterator[Row]:
    """Yield Fig-QA's rows; the labels of the test split are hidden.

    Raises:
        DataError: the split or a label is unknown, or both rows of a dev pair have the same label.
    """
    require_part(path, "figqa", FIGQA)
    file = context.fetch("figqa", FIGQA[path])
    labels: dict[str, int | None] = {}
    for number, row in enumerate(read_rows(file, "csv")):
        location = f"figqa: {file}, row {number}"
        if row["labels"] not in LABEL_INDICES:
            raise DataError(
                f"{location}, field 'labels': {row['labels']!r:.40} is not one of {', '.join(LABEL_INDICES)}"
            )
        gold = LABEL_INDICES[row["labels"]]
        if path == "dev" and labels.get(row["qid"], -1) == gold:  # two pairs of train have equal labels, as published
            raise DataError(f"{location}, field 'labels': both rows of pair {row['qid']} are {gold}; they must differ")
        labels[row["qid"]] = gold
        yield {
            "id": f"{path}-{number}",
            "phrase": row["startphrase"],
            "endings": (row["ending1"], row["ending2"]),
            "gold": gold,
            "pair": f"{path}-{row['qid']}",
        }


def fignli(path: str, context: DataContext) -> Iterator[Row]:
    """Return Figurative-NLI's rows of one figure. Raises `DataError` for an unknown figure or a missing copy."""
    require_part(path, "fignli", ("metaphor", "simile", "published_irony"))
    if path == "published_irony":
        return irony(context)
    file = context.fetch("fignli", f"{path}-entail.json")
    return (
        {**pair_row(f"{path}-{number}", row["premise"], row["hypothesis"]), "label": row["label"]}
        for number, row in enumerate(read_rows(file, "json"))
    )


def irony(context: DataContext) -> Iterator[Row]:
    """Yield the test rows of `recast_irony.csv` in a user's copy: a reported tweet, and whether it was ironic.

    Raises:
        MissingCopy: there is no such file.
        DataError: a row lacks a column or has an unknown label.
    """
    folders = context.copies("fignli")
    table = next((file for folder in folders for file in sorted(folder.rglob("recast_irony.csv"))), None)
    if table is None:
        raise MissingCopy("fignli: there is no recast_irony.csv", CURE, folders)
    for number, row in enumerate(read_rows(table, "csv")):
        location = f"fignli: {table}, row {number}"
        for column in ("split", "premise", "hyp", "label"):
            if column not in row:
                raise DataError(f"{location}: there is no column {column!r}; {CURE}")
        if row["label"] not in IRONIC:
            raise DataError(f"{location}, field 'label': {row['label']!r:.40} is neither True nor False")
        if row["split"] == "test":
            yield {**pair_row(f"irony-{number}", row["premise"], row["hyp"]), "label": IRONIC[row["label"]]}


def pair_row(name: str, premise: str, hypothesis: str) -> dict[str, Any]:
    """Return the texts of a pair; pairs with the same premise share a cluster."""
    return {"id": name, "premise": premise, "hypothesis": hypothesis, "cluster": _digest(premise)}


def require_part(path: str, name: str, parts: Any) -> None:
    """Raise `DataError` for a part that a data set does not have."""
    if path not in parts:
        raise DataError(f"{name} has no rows {path!r:.40}{near(path, list(parts))}; it has {', '.join(parts)}")


def _match_text(row: Row, location: str, name: str, form: re.Pattern[str]) -> re.Match[str]:
    """Return the match of a form with a text of a natural-language question. Raises `DataError` without a match."""
    translation = row.get("translation")
    text = translation.get(name) if isinstance(translation, Mapping) else None
    if not isinstance(text, str) or not (match := form.fullmatch(text)):
        expected = "a question about two sentences" if form is QUESTION else "a label and an explanation"
        raise DataError(f"{location}, field {name!r}: expected {expected}, found {text!r:.60}")
    return match


def _texts(row: Row, location: str) -> list[str]:
    """Return the four texts of a test row. Raises `DataError` if one is missing."""
    for name in ("premise", "hypothesis", "label", "explanation"):
        if not isinstance(row.get(name), str):
            raise DataError(f"{location}: there is no text {name!r}; the row has {', '.join(row)}")
    return [row[name] for name in ("premise", "hypothesis", "label", "explanation")]


def _digest(text: str) -> str:
    """Return a name for a sentence or an idiom that does not reveal its text."""
    from hashlib import blake2b

    return blake2b(letters(text).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
