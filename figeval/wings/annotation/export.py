"""Items for annotators: generated texts to judge by criteria, or questions with options to answer (a human baseline).

Items are numbered in a random order that does not tell who wrote what; the key, which must not reach the annotators,
does. Attention checks are items that say which labels to give.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from figeval.errors import OptionError, near
from figeval.io.storage import cure, replacing
from figeval.runs.harness import Harness
from figeval.spec.criteria import Criterion, criteria_of, criterion
from figeval.spec.tasks import TaskSpec
from figeval.task_types.choice import ChoiceExample
from figeval.wings.annotation.results import ANSWER, slug
from figeval.wings.annotation.sheets import (
    COMMENT,
    INSTRUCTIONS,
    ITEM,
    KEY,
    TEXT,
    Item,
    Key,
    csv_bytes,
    has_key,
    in_order,
    sheet_name,
)
from figeval.wings.annotation.texts import WrittenText, WrittenTexts

Format = Literal["csv", "label_studio"]
PEOPLE = "people"  # who answers questions
QUESTION = "question"
HEAD = ("annotator", "criterion", "label", "time")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
TASKS, CONFIG = "tasks.json", "config.xml"  # for Label Studio


@dataclass(frozen=True, slots=True)
class Export:
    """Material for annotators in one format: what they are told, the criteria, and for each of them a sheet."""

    criteria: tuple[Criterion, ...]
    to: Format = "csv"
    annotators: int = 1
    checks: int = 2
    seed: int = 0
    instructions: str = ""


def wanted_criteria(given: Sequence[str], written: WrittenTexts, harness: Harness) -> tuple[Criterion, ...]:
    """Return the criteria of `--criteria`, or else those of the task, or else its error types with the scale yes/no.

    Args:
        given: parts such as `fluency=1-5`, or the name of a task whose criteria are wanted.
        written: texts of the task.
        harness: registries that provide tasks.

    Raises:
        OptionError: a part is not a criterion, the named task has none, or there are none at all.
    """
    if len(given) == 1 and "=" not in given[0]:
        tasks = harness.catalogue.tasks
        scales = tasks.get(given[0]).criteria if given[0] in tasks else {}
        if not scales:
            raise OptionError(
                f"--criteria: {given[0]!r:.80} is neither name=scale nor a task with criteria"
                f"{near(given[0], [entry.name for entry in tasks], 0.8)}; write e.g. fluency=1-5,coherence=yes/no"
            )
        return criteria_of(scales)
    try:
        if given:
            return tuple(criterion(name, scale) for name, _, scale in (part.partition("=") for part in given))
    except ValueError as error:
        raise OptionError(f"--criteria: {error}") from error
    if written.criteria:
        return criteria_of(written.criteria)
    if written.error_types:
        return criteria_of(dict.fromkeys(written.error_types, "yes/no"))
    raise OptionError(
        f"{written.task} declares no criteria; give --criteria, e.g. fluency=1-5,coherence=yes/no, or write criteria "
        "in the task file"
    )


def questions(task: TaskSpec, n: int, seed: int, harness: Harness) -> tuple[WrittenTexts, dict[str, str], Criterion]:
    """Draw questions of a choice task.

    Args:
        task: the task.
        n: number of examples to draw; all are used if there are fewer.
        seed: random seed of the draw.
        harness: registries that provide the data.

    Returns:
        The questions as texts without an author, the letter of the right option by example, and the criterion.

    Raises:
        OptionError: the task is not a choice task, its answers are hidden, or an example has too many options.
    """
    examples = [one for one in harness.examples(task) if isinstance(one, ChoiceExample) and one.gold is not None]
    if not examples:
        raise OptionError(
            f"{task.name} has no questions with options and a known answer; name a task of the type choice, or give "
            "the runs whose texts are to be judged"
        )
    most = max(len(one.options) for one in examples)
    if most > len(LETTERS):
        raise OptionError(f"{task.name} has questions with {most} options; at most {len(LETTERS)} can be lettered")
    drawn = set(random.Random(f"{seed} examples").sample([one.id for one in examples], min(n, len(examples))))
    shown = [one.for_prompt() for one in examples if one.id in drawn]
    texts = tuple(
        WrittenText(
            PEOPLE, one.id, one.cluster, {QUESTION: one.query, **dict(zip(LETTERS, one.options, strict=False))}, ""
        )
        for one in shown
        if isinstance(one, ChoiceExample)
    )
    gold = {one.id: LETTERS[one.gold] for one in examples if one.id in drawn and one.gold is not None}
    answer = Criterion(name=ANSWER, labels=tuple(LETTERS[:most]))
    return WrittenTexts(task.name, (), texts, (PEOPLE,), {}), gold, answer


def export_items(folder: Path, written: WrittenTexts, gold: Mapping[str, str], wanted: Export) -> Key:
    """Write the items and their key to a folder.

    Args:
        folder: folder to create. Existing items are refused, since they may have been judged; if an earlier call with
            the same key was interrupted, only the missing files are written.
        written: texts or questions.
        gold: label that is right, by example, for questions.
        wanted: criteria and format.

    Raises:
        OptionError: the folder has items, a criterion has the name of a column or of another criterion, or sheets for
            several annotators are requested for Label Studio.
        RecordError: the folder cannot be written.
    """
    if wanted.to == "label_studio" and wanted.annotators > 1:
        raise OptionError("--annotators: Label Studio distributes the items itself; remove the option")
    texts = tuple(
        replace(text, inputs={_column(name): shown for name, shown in text.inputs.items()}) for text in written.texts
    )
    inputs = tuple(dict.fromkeys(name for text in texts for name in text.inputs))
    _check_names(wanted.criteria, inputs)
    numbered, checks = _numbered(texts, wanted, inputs)
    of_sheets = range(1, wanted.annotators + 1) if wanted.to == "csv" else ()
    key = Key(
        task=written.task,
        error_types=(),
        authors=written.authors,
        not_written=dict(written.not_written),
        seed=wanted.seed,
        sheets=tuple(map(sheet_name, of_sheets)),
        items={number: Item.of(text) for number, text in numbered.items() if number not in checks},
        criteria=wanted.criteria,
        gold={number: gold[text.example] for number, text in numbered.items() if text.example in gold},
        checks=checks,
        instructions=wanted.instructions,
        models=dict(written.models),
    )
    columns = (*inputs, *((TEXT,) if any(text.text for text in texts) else ()))
    files = _files(key, numbered, columns, wanted)
    missing = {name: content for name, content in files.items() if not (folder / name).exists()}
    if len(missing) < len(files) and not (missing and has_key(folder, key)):
        raise OptionError(f"{folder} already has items, which may have been judged; choose another --output")
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in missing.items():
            with replacing(folder / name) as stream:
                stream.write(content)
    return key


def _column(name: str) -> str:
    """Return the name of an input's column, which no other column has."""
    return f"input {name}" if name in (ITEM, TEXT, COMMENT) else name


def _check_names(criteria: Sequence[Criterion], inputs: Sequence[str]) -> None:
    names = [one.name for one in criteria]
    # Those of the long form would make a sheet look like one.
    taken = {slug(name) for name in (ITEM, TEXT, COMMENT, *HEAD, *inputs)}
    for name in names:
        if slug(name) in taken or [slug(other) for other in names].count(slug(name)) > 1:
            columns = ", ".join((ITEM, *inputs, TEXT, COMMENT, *HEAD))
            raise OptionError(f"--criteria: {name!r} is given twice, or is one of the other columns ({columns})")


def _numbered(
    texts: Sequence[WrittenText], wanted: Export, inputs: Sequence[str]
) -> tuple[dict[str, WrittenText], dict[str, dict[str, str]]]:
    """Number texts and attention checks together, in a random order; also return the labels that checks ask for."""
    generator = random.Random(f"{wanted.seed} items")
    asked = [{one.name: generator.choice(one.labels) for one in wanted.criteria} for _ in range(wanted.checks)]
    has_texts = any(text.text for text in texts)
    items: list[tuple[WrittenText, dict[str, str]]] = [(text, {}) for text in texts]
    for labels in asked:
        choose = "; ".join(f"{name}: {label}" for name, label in labels.items())
        said = f"This item checks your attention. Please choose {choose}."
        shown = dict.fromkeys(inputs, "") if has_texts else dict.fromkeys(inputs, "") | {QUESTION: said}
        items.append((WrittenText("", "", None, shown, said if has_texts else ""), labels))
    generator.shuffle(items)
    numbered = {str(number): item for number, item in enumerate(items, 1)}
    return (
        {number: text for number, (text, _) in numbered.items()},
        {number: labels for number, (_, labels) in numbered.items() if labels},
    )


def _files(key: Key, numbered: Mapping[str, WrittenText], columns: Sequence[str], wanted: Export) -> dict[str, bytes]:
    """Return the content of each file by name, the key first, since nothing can be read back without it."""
    files = {KEY: (json.dumps(key.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n").encode()}
    cells = {number: {**text.inputs, TEXT: text.text} for number, text in numbered.items()}
    names = [one.name for one in wanted.criteria]
    for sheet in key.sheets:
        rows = [
            [number, *(cells[number].get(name, "") for name in columns), *("" for _ in names), ""]
            for number in in_order(list(numbered), wanted.seed, sheet)
        ]
        files[sheet] = csv_bytes([(ITEM, *columns, *names, COMMENT), *rows])
    if key.told:
        files[INSTRUCTIONS] = f"{key.told}\n".encode()
    if wanted.to == "label_studio":
        tasks = [
            {"data": {ITEM: number, **{slug(name): cells[number].get(name, "") for name in columns}}}
            for number in numbered
        ]
        files[TASKS] = (json.dumps(tasks, indent=1, ensure_ascii=False) + "\n").encode()
        files[CONFIG] = _config(columns, wanted)
    return files


def _config(columns: Sequence[str], wanted: Export) -> bytes:
    """Return the labelling configuration of Label Studio: instructions, texts, and single choices for the criteria."""
    view = ElementTree.Element("View")
    if wanted.instructions:
        ElementTree.SubElement(view, "Header", value="Instructions", size="4")
        ElementTree.SubElement(view, "Text", name="figeval-instructions", value=_literal(wanted.instructions))
    for name in columns:
        ElementTree.SubElement(view, "Header", value=name, size="4")
        ElementTree.SubElement(view, "Text", name=f"shown_{slug(name)}", value=f"${slug(name)}")
    for one in wanted.criteria:
        ElementTree.SubElement(view, "Header", value=one.name, size="4")
        if one.description:
            ElementTree.SubElement(view, "Header", value=_literal(one.description), size="6")
        attributes = {"name": slug(one.name), "toName": f"shown_{slug(columns[-1])}", "choice": "single"}
        choices = ElementTree.SubElement(view, "Choices", {**attributes, "showInline": "true", "required": "true"})
        for label in one.labels:
            ElementTree.SubElement(choices, "Choice", value=label)
    ElementTree.indent(view)
    return f"{ElementTree.tostring(view, encoding='unicode')}\n".encode()


def _literal(text: str) -> str:
    """Return a text for an attribute in which Label Studio would replace `$name` by a field of the task.

    Invisible characters (U+2060) around each dollar sign keep it from being the first character or before a name.
    """
    return text.replace("$", "\u2060$\u2060")
