"""Items for annotators: texts or examples to judge by criteria, or questions with options to answer (human baseline).

Items are numbered in a random order that does not tell who wrote what; the key, which must not reach the annotators,
does. Attention checks are items that say which labels to give.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias
from xml.etree import ElementTree

from pydantic import TypeAdapter, ValidationError

from figeval import DataError, Harness, OptionError, TaskSpec
from figeval.api.runs import as_list
from figeval.io.files import cure, is_file, read_text, replacing
from figeval.io.text import clean, near, one_line
from figeval.io.validation import first_problem
from figeval.spec.criteria import YES_NO, Criterion, Scale, criteria_of, criterion
from figeval.wings.annotation.items import (
    CATEGORY,
    COMMENT,
    CONFIG,
    INSTRUCTIONS,
    ITEM,
    KEY,
    LONG_COLUMNS,
    MAX_CATEGORY_CHARS,
    REMARKS,
    TASKS,
    TEXT,
    Item,
    Key,
    csv_bytes,
    read_key,
    shuffle_blocks,
    shuffle_items,
    slug,
)
from figeval.wings.annotation.written_texts import WrittenText, WrittenTexts

Format = Literal["csv", "label_studio"]
Criteria: TypeAlias = str | Sequence[str] | Mapping[str, Any]


# ---- criteria --------------------------------------------------------------------------------------------------------


def parse_criteria(criteria: Criteria) -> list[str] | dict[str, Scale]:
    """Return criteria as parts such as `fluency=1-5`, or as a mapping with their scales. Raises `OptionError`."""
    if isinstance(criteria, Mapping):
        try:
            return TypeAdapter(dict[str, Scale]).validate_python(dict(criteria))
        except ValidationError as error:
            raise OptionError(f"criteria: {first_problem(error)}") from error
    example = 'criteria with their scales, such as "fluency=1-5"'
    parts = criteria.split(",") if isinstance(criteria, str) else as_list(criteria, str, "criteria", example)
    return [part.strip() for part in parts if part.strip()]


def choose_criteria(criteria: Criteria, written: WrittenTexts, harness: Harness) -> tuple[Criterion, ...]:
    """Return the given criteria, or else those of the task, or else its error types with the scale yes/no.

    Args:
        criteria: parts such as `fluency=1-5`, or the name of a task whose criteria are used, or scales by name.
        written: texts of the task.
        harness: registries that provide tasks.

    Raises:
        OptionError: a part is not a criterion, the named task has none, or there are none at all.
    """
    parts = parse_criteria(criteria)
    if isinstance(parts, list) and len(parts) == 1 and "=" not in parts[0]:
        return _criteria_of_task(parts[0], harness)
    flag = "--criteria" if isinstance(parts, list) else "criteria"
    try:
        if not isinstance(parts, list):
            return criteria_of(parts)
        if parts:
            return tuple(criterion(name, scale) for name, _, scale in (part.partition("=") for part in parts))
    except ValueError as error:
        raise OptionError(f"{flag}: {error}") from error
    if written.criteria:
        return criteria_of(written.criteria)
    if written.error_types:
        return criteria_of(dict.fromkeys(written.error_types, "yes/no"))
    raise OptionError(
        f"{written.task} declares no criteria; give --criteria, e.g. fluency=1-5,coherence=yes/no, or write criteria "
        "in the task file"
    )


def _criteria_of_task(name: str, harness: Harness) -> tuple[Criterion, ...]:
    tasks = harness.catalogue.tasks
    scales = tasks.get(name).criteria if name in tasks else {}
    if not scales:
        raise OptionError(
            f"--criteria: {name!r:.80} is neither name=scale nor a task with criteria"
            f"{near(name, [registration.name for registration in tasks], 0.8)}; write e.g. fluency=1-5,coherence=yes/no"
        )
    return criteria_of(scales)


# ---- instructions ----------------------------------------------------------------------------------------------------

OTHER_PARTS = "The other parts of an item are what the text was written from; do not judge them."
QUESTION_IN_TEXT = re.compile(r"(?:^|[:;.,] )([^:;.,?]+\?)")  # in a description
MAX_INSTRUCTION_BYTES = 1 << 18
INSTRUCTION_CURE = "give --instructions a text of several words, or a file with it"


def read_instructions(text_or_file: str) -> str:
    """Return the instructions that `--instructions` gives, which may be empty.

    They are stored in the key, and the criteria have descriptions of their own, so that the page and the judge can show
    each where it belongs. `Key.guidelines` has both.

    Args:
        text_or_file: a text; or the path of a file with one, after an @ or not. A single word is always a path, so a
            mistyped name does not become the instructions.

    Raises:
        OptionError: the file does not exist, cannot be read, or is not text.
    """
    text = text_or_file.strip()
    name = text.removeprefix("@")
    if text and (name != text or len(text.split()) == 1 or is_file(Path(text))):
        text = read_text(Path(name), OptionError, cure=INSTRUCTION_CURE, max_bytes=MAX_INSTRUCTION_BYTES)
    return clean(text.replace("\r\n", "\n")).strip()


def instructions_to_judge(criteria: Sequence[Criterion], *, has_texts: bool = True) -> str:
    """Return the default instructions for items that are judged by criteria, with the meaning of unexplained labels.

    What is judged of an item is its text, or all of it if there are no texts.
    """
    on = "each criterion separately" if len(criteria) > 1 else f"one criterion: {criteria[0].name}"
    judge = f"judge its text on {on}. {OTHER_PARTS}" if has_texts else f"judge it on {on}."
    sentences = [f"Read each item as a whole, then {judge}"]
    unexplained = [criterion for criterion in criteria if not criterion.description]
    if any(criterion.is_ordinal for criterion in unexplained):
        sentences.append("On a numerical scale, a higher number means more of what the criterion describes.")
    if any(criterion.labels == YES_NO for criterion in unexplained):
        subject = "text" if has_texts else "item"
        sentences.append(f"Choose yes if the criterion applies to the {subject}, and no if it does not.")
    return "\n".join(sentences)


def instructions_to_find(errors: Sequence[str]) -> str:
    """Return the default instructions for texts in which errors are to be found."""
    if len(errors) == 1:
        return f"Read each item as a whole, then say whether its text has this error: {errors[0]}. {OTHER_PARTS}"
    return (
        f"Read each item as a whole, then say for each of these errors whether its text has it: {', '.join(errors)}. A "
        f"text may have several of them, or none. {OTHER_PARTS}"
    )


def instructions_to_answer(task: TaskSpec) -> str:
    """Return the default instructions for the questions of a task.

    A question in the description of the task is asked, and its vocabulary names what the options are. The rest of a
    description is for researchers and may say how wrong options were made, so annotators do not get it.
    """
    match = QUESTION_IN_TEXT.search(clean(task.description).strip())
    question = match.group(1) if match else ""
    nouns = [noun for noun in task.vocabulary.get("option", ())[:1] if noun.isascii()]  # others are in other languages
    sentence = f"Choose the {nouns[0] if nouns else 'option'} that fits best, and answer with its letter."
    return f"{question[:1].upper()}{question[1:]} {sentence}".strip()


# ---- files -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Export:
    """Material for annotators in one format: what they are told, the criteria, and for each of them a sheet.

    `error_types` are further criteria with the scale yes/no, which come first. `categories` are what a column for
    remarks may contain.
    """

    criteria: tuple[Criterion, ...]
    to: Format = "csv"
    annotators: int = 1
    checks: int = 2
    seed: int = 0
    instructions: str = ""
    error_types: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


def write_sheets(
    folder: Path,
    written: WrittenTexts,
    error_types: Sequence[str],
    *,
    annotators: int = 1,
    seed: int = 0,
    instructions: str | None = None,
) -> Key:
    """Number the texts in a random order, and write the key and a sheet for each annotator.

    Args:
        folder: folder to create. Existing sheets are refused, since they may have been filled in; of an interrupted
            call with the same key, only the missing ones are written.
        written: texts to annotate.
        error_types: error types, one column each; if empty, those of the task.
        annotators: number of sheets, each with the items in an order of its own.
        seed: random seed of the orders.
        instructions: what annotators are told; by default, a text about the error types.

    Raises:
        OptionError: there are no error types, one has the name of another column, or the folder already has sheets.
        RecordError: the folder cannot be written.
    """
    errors = tuple(error_types) or written.error_types
    texts = _rename_inputs(written.texts, (ITEM, TEXT, COMMENT))
    columns = (*_inputs_of(texts), TEXT)
    _check_error_types(written.task, errors, (ITEM, *columns, COMMENT))
    text = instructions_to_find(errors) if instructions is None else instructions
    export = Export((), annotators=annotators, checks=0, seed=seed, instructions=text, error_types=errors)
    key, files = _make_files(replace(written, texts=texts), {}, export, columns)
    refusal = f"{folder} already has sheets, which may have been filled in; choose another --output"
    return _write_missing(folder, key, files, refusal)


def write_items(folder: Path, written: WrittenTexts, gold: Mapping[str, str], export: Export) -> Key:
    """Write the items and their key to a folder.

    Args:
        folder: folder to create. Existing items are refused, since they may have been judged; if an earlier call with
            the same key was interrupted, only the missing files are written.
        written: texts or questions.
        gold: label that is right, by example, for questions.
        export: criteria and format.

    Raises:
        OptionError: the folder has items, a criterion has the name of a column or of another criterion, or sheets for
            several annotators are requested for Label Studio.
        RecordError: the folder cannot be written.
    """
    if export.to == "label_studio" and export.annotators > 1:
        raise OptionError("--annotators: Label Studio distributes the items itself; remove the option")
    remarks = REMARKS if export.categories else (COMMENT,)
    _check_categories(export.categories)
    text_column = (TEXT,) if written.has_texts else ()
    texts = _rename_inputs(written.texts, (ITEM, *text_column, *remarks))
    inputs = _inputs_of(texts)
    _check_criteria(export.criteria, (*inputs, *remarks))
    columns = (*inputs, *text_column)
    key, files = _make_files(replace(written, texts=texts), gold, export, columns)
    refusal = f"{folder} already has items, which may have been judged; choose another --output"
    return _write_missing(folder, key, files, refusal)


def _rename_inputs(texts: Sequence[WrittenText], other_columns: Sequence[str]) -> tuple[WrittenText, ...]:
    """Return the texts with names of inputs that no other column has."""
    return tuple(
        replace(
            text,
            inputs={f"input {name}" if name in other_columns else name: shown for name, shown in text.inputs.items()},
        )
        for text in texts
    )


def _inputs_of(texts: Sequence[WrittenText]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts for name in text.inputs))


def _check_error_types(task: str, error_types: Sequence[str], columns: Sequence[str]) -> None:
    if not error_types:
        raise OptionError(
            f"{task} declares no error types; give --errors, separated by commas, or write error_types in the task file"
        )
    for name in error_types:
        if not name.strip() or name in columns or list(error_types).count(name) > 1:
            taken = ", ".join(columns)
            raise OptionError(f"--errors: {name!r} is blank, given twice, or one of the other columns ({taken})")


def _check_categories(categories: Sequence[str]) -> None:
    spellings = [name.casefold() for name in categories]
    for name in categories:
        if not 0 < len(one_line(name)) <= MAX_CATEGORY_CHARS or spellings.count(name.casefold()) > 1:
            raise OptionError(
                f"--categories: {name!r:.80} is blank, given twice, or longer than {MAX_CATEGORY_CHARS} characters"
            )


def _check_criteria(criteria: Sequence[Criterion], other_columns: Sequence[str]) -> None:
    # The columns of the long form would make a sheet look like one.
    columns = (ITEM, TEXT, *other_columns, *LONG_COLUMNS[1:])
    slugs = [slug(criterion.name) for criterion in criteria]
    for scale, name in zip(criteria, slugs, strict=True):
        if name in set(map(slug, columns)) or slugs.count(name) > 1:
            raise OptionError(
                f"--criteria: {scale.name!r} is given twice, or is one of the other columns ({', '.join(columns)})"
            )


def _make_files(
    written: WrittenTexts, gold: Mapping[str, str], export: Export, columns: Sequence[str]
) -> tuple[Key, dict[str, bytes]]:
    """Return the key, and the content of each file by name."""
    numbered, checks = _number_items(written, export)
    blocks = {name: index for index, name in enumerate(dict.fromkeys(text.block for text in numbered.values()))}
    sheets = range(1, export.annotators + 1) if export.to == "csv" else ()
    key = Key(
        task=written.task,
        error_types=export.error_types,
        authors=written.authors,
        not_written=dict(written.not_written),
        seed=export.seed,
        sheets=tuple(f"sheet_{annotator}.csv" for annotator in sheets),
        items={
            number: Item(author=text.author, example=text.example, cluster=text.cluster)
            for number, text in numbered.items()
            if number not in checks
        },
        criteria=export.criteria,
        gold={number: gold[text.example] for number, text in numbered.items() if text.example in gold},
        checks=checks,
        instructions=export.instructions,
        models=dict(written.models),
        blocks={number: blocks[text.block] for number, text in numbered.items() if text.block},
        categories=export.categories,
    )
    cells = {number: {TEXT: text.text} | dict(text.inputs) for number, text in numbered.items()}
    shown = {number: {name: by_name.get(name, "") for name in columns} for number, by_name in cells.items()}
    return key, _contents(key, shown, columns, export)


def _number_items(written: WrittenTexts, export: Export) -> tuple[dict[str, WrittenText], dict[str, dict[str, str]]]:
    """Number texts and attention checks together, in a random order; also return the labels that checks ask for."""
    generator = random.Random(f"{export.seed} items")
    choices = [
        {criterion.name: generator.choice(criterion.labels) for criterion in export.criteria}
        for _ in range(export.checks)
    ]
    items = [(text, dict[str, str]()) for text in written.texts]
    items += [(_attention_check(written, labels), labels) for labels in choices]
    shuffled = shuffle_blocks(items, [text.block or None for text, _ in items], generator)
    numbered = {str(number): item for number, item in enumerate(shuffled, 1)}
    return (
        {number: text for number, (text, _) in numbered.items()},
        {number: labels for number, (_, labels) in numbered.items() if labels},
    )


def _attention_check(written: WrittenTexts, labels: Mapping[str, str]) -> WrittenText:
    """Return an item that asks for these labels, where others have their text or their first part."""
    choose = "; ".join(f"{name}: {label}" for name, label in labels.items())
    request = f"This item checks your attention. Please choose {choose}."
    fields = dict.fromkeys(_inputs_of(written.texts), "")
    if written.has_texts:
        return WrittenText("", "", None, fields, request)
    return WrittenText("", "", None, {**fields, next(iter(fields)): request}, "")


def _contents(
    key: Key, shown: Mapping[str, Mapping[str, str]], columns: Sequence[str], export: Export
) -> dict[str, bytes]:
    """Return the content of each file by name, the key first, since nothing can be read back without it."""
    files = {KEY: _json_bytes(key.model_dump(mode="json"))}
    names = [*(criterion.name for criterion in key.all_criteria), *([CATEGORY] if key.categories else []), COMMENT]
    for sheet in key.sheets:
        rows = [
            [number, *shown[number].values(), *("" for _ in names)]
            for number in shuffle_items(list(shown), key.blocks, export.seed, sheet)
        ]
        files[sheet] = csv_bytes([(ITEM, *columns, *names), *rows])
    if key.guidelines:
        files[INSTRUCTIONS] = f"{key.guidelines}\n".encode()
    if export.to == "label_studio":
        tasks = [
            {"data": {ITEM: number, **{slug(name): text for name, text in fields.items()}}}
            for number, fields in shown.items()
        ]
        files[TASKS] = _json_bytes(tasks)
        files[CONFIG] = _label_studio_config(columns, export)
    return files


def _json_bytes(content: object) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def _write_missing(folder: Path, key: Key, files: Mapping[str, bytes], refusal: str) -> Key:
    """Write the files that do not exist, and return the key.

    Raises:
        OptionError: all files exist, or some of them with another key; the message is `refusal`.
        RecordError: the folder cannot be written.
    """
    missing = {name: content for name, content in files.items() if not (folder / name).exists()}
    if len(missing) < len(files) and not (missing and _has_key(folder, key)):
        raise OptionError(refusal)
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in missing.items():
            with replacing(folder / name) as stream:
                stream.write(content)
    return key


def _has_key(folder: Path, key: Key) -> bool:
    try:
        return read_key(folder) == key
    except DataError:
        return False


def _label_studio_config(columns: Sequence[str], export: Export) -> bytes:
    """Return the labelling configuration of Label Studio: instructions, texts, and single choices for the criteria."""
    view = ElementTree.Element("View")
    if export.instructions:
        ElementTree.SubElement(view, "Header", value="Instructions", size="4")
        ElementTree.SubElement(view, "Text", name="figeval-instructions", value=_escape_fields(export.instructions))
    for name in columns:
        ElementTree.SubElement(view, "Header", value=name, size="4")
        ElementTree.SubElement(view, "Text", name=f"shown_{slug(name)}", value=f"${slug(name)}")
    for scale in export.criteria:
        ElementTree.SubElement(view, "Header", value=scale.name, size="4")
        if scale.description:
            ElementTree.SubElement(view, "Header", value=_escape_fields(scale.description), size="6")
        attributes = {"name": slug(scale.name), "toName": f"shown_{slug(columns[-1])}", "choice": "single"}
        choices = ElementTree.SubElement(view, "Choices", {**attributes, "showInline": "true", "required": "true"})
        for label in scale.labels:
            ElementTree.SubElement(choices, "Choice", value=label)
    subject = f"shown_{slug(columns[-1])}"
    if export.categories:
        ElementTree.SubElement(view, "Header", value=CATEGORY, size="4")
        choices = ElementTree.SubElement(view, "Choices", name=CATEGORY, toName=subject, choice="single")
        for category in export.categories:
            ElementTree.SubElement(choices, "Choice", value=category)
    ElementTree.SubElement(view, "TextArea", name=COMMENT, toName=subject, placeholder=COMMENT, maxSubmissions="1")
    ElementTree.indent(view)
    return f"{ElementTree.tostring(view, encoding='unicode')}\n".encode()


def _escape_fields(text: str) -> str:
    """Return a text for an attribute in which Label Studio would replace `$name` by a field of the task.

    Invisible characters (U+2060) around each dollar sign keep it from being the first character or before a name.
    """
    return text.replace("$", "\u2060$\u2060")
