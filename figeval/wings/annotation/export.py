"""Items for annotators: texts or examples to judge by criteria, or questions with options to answer (human baseline).

Items are numbered in a random order that does not tell who wrote what; the key, which must not reach the annotators,
does. Attention checks are items that say which labels to give.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from figeval import DataError, OptionError
from figeval.io.files import cure, replacing
from figeval.io.text import one_line
from figeval.spec.criteria import Criterion
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
    TEXT_A,
    TEXT_B,
    Battle,
    Item,
    Key,
    csv_bytes,
    digest_texts,
    read_key,
    shuffle_blocks,
    shuffle_items,
    slug,
)
from figeval.wings.annotation.questions import instructions_to_find
from figeval.wings.annotation.written_texts import WrittenText, WrittenTexts

Format = Literal["csv", "label_studio"]


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
    sheets = [f"sheet_{person}.csv" for person in range(1, export.annotators + 1)] if export.to == "csv" else []
    cells = {number: {TEXT: text.text} | dict(text.inputs) for number, text in numbered.items()}
    shown = {number: {name: by_name.get(name, "") for name in columns} for number, by_name in cells.items()}
    key = Key(
        task=written.task,
        error_types=export.error_types,
        authors=written.authors,
        not_written=dict(written.not_written),
        seed=export.seed,
        sheets=tuple(sheets),
        items={number: _as_item(text) for number, text in numbered.items() if number not in checks},
        criteria=export.criteria,
        gold={number: gold[text.example] for number, text in numbered.items() if text.example in gold},
        checks=checks,
        instructions=export.instructions,
        models=dict(written.models),
        blocks={number: blocks[text.block] for number, text in numbered.items() if text.block},
        categories=export.categories,
        parts=_parts(numbered, checks, sheets),
        identical=tuple(map(_as_battle, written.identical)),
        digests={number: digest_texts(by_name) for number, by_name in shown.items()},
    )
    return key, _contents(key, shown, columns, export)


def _as_item(text: WrittenText) -> Item:
    return _as_battle(text) if text.opponent else Item(author=text.author, example=text.example, cluster=text.cluster)


def _as_battle(text: WrittenText) -> Battle:
    return Battle(author=text.author, example=text.example, cluster=text.cluster, opponent=text.opponent)


def _parts(
    numbered: Mapping[str, WrittenText], checks: Collection[str], sheets: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return the items of each sheet, attention checks included, if annotators judge different ones."""
    if len(sheets) < 2 or not any(text.parts for text in numbered.values()):
        return {}
    return {
        sheet: tuple(number for number, text in numbered.items() if number in checks or index in text.parts)
        for index, sheet in enumerate(sheets)
    }


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
    """Return an item that asks for these labels, where others have their text, both texts, or their first part."""
    choose = "; ".join(f"{name}: {label}" for name, label in labels.items())
    request = f"This item checks your attention. Please choose {choose}."
    fields = dict.fromkeys(_inputs_of(written.texts), "")
    if written.has_texts:
        return WrittenText("", "", None, fields, request)
    if any(text.opponent for text in written.texts):
        return WrittenText("", "", None, {**fields, TEXT_A: request, TEXT_B: request}, "")
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
            for number in shuffle_items(key.parts.get(sheet, list(shown)), key.blocks, export.seed, sheet)
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
