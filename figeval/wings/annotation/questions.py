"""Questions to annotators: the criteria that they judge by, and the instructions that they read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from figeval import Harness, OptionError, TaskSpec
from figeval.io.files import is_file, read_text
from figeval.io.text import clean, near
from figeval.io.validation import as_list, first_problem
from figeval.spec.criteria import YES_NO, Criterion, Scale, criteria_of, criterion
from figeval.wings.annotation.items import TEXT_A, TEXT_B, TIE
from figeval.wings.annotation.written_texts import WrittenTexts

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


# ---- criteria of battles ---------------------------------------------------------------------------------------------

RESULTS = (TEXT_A, TEXT_B, TIE)
PREFERENCE = Criterion(name="preference", labels=RESULTS, description="Which text is better as a whole?")
BATTLE_SCALES = {frozenset(RESULTS): RESULTS, frozenset(RESULTS[:2]): RESULTS[:2]}


def choose_battle_criteria(criteria: Criteria, harness: Harness) -> tuple[Criterion, ...]:
    """Return the criteria of battles, whose scale is A/B/tie, or A/B if nobody may call a tie.

    Args:
        criteria: names, each perhaps with one of these scales, or the name of a task whose criteria are used under
            their names; without any, which text is better as a whole.
        harness: registries that provide tasks.

    Raises:
        OptionError: a criterion is blank or has another scale.
    """
    parts = parse_criteria(criteria)
    if isinstance(parts, list):
        tasks = harness.catalogue.tasks
        if len(parts) == 1 and parts[0] in tasks and (scales := tasks.get(parts[0]).criteria):
            parts = list(scales)
        parts = {name.strip(): scale for name, _, scale in (part.partition("=") for part in parts)}
    try:
        chosen = criteria_of({name: scale or "/".join(RESULTS) for name, scale in parts.items()})
    except ValueError as error:
        raise OptionError(f"criteria: {error}") from error
    for each in chosen:
        if frozenset(each.labels) not in BATTLE_SCALES:
            raise OptionError(
                f"--criteria: {each.name!r:.60} has the labels {', '.join(each.labels):.80}, but in a battle one text "
                f"wins; give only its name, or {each.name:.60}=A/B if nobody may call a tie"
            )
    ordered = [each.model_copy(update={"labels": BATTLE_SCALES[frozenset(each.labels)]}) for each in chosen]
    return tuple(ordered) or (PREFERENCE,)


# ---- instructions ----------------------------------------------------------------------------------------------------

OTHER_PARTS_OF_BATTLE = "The other parts of an item are what both were written from; do not judge them."
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


def instructions_to_compare(criteria: Sequence[Criterion]) -> str:
    """Return the default instructions for battles."""
    on = "for each criterion separately" if len(criteria) > 1 else f"by one criterion: {criteria[0].name}"
    sentences = [f"Read both texts as a whole, then say which one is better, {on}. {OTHER_PARTS_OF_BATTLE}"]
    sentences.append(f"Choose {TEXT_A} or {TEXT_B} for the better text, whatever its length and place.")
    if any(TIE in criterion.labels for criterion in criteria):
        sentences.append(f"Choose {TIE} if neither is better.")
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
