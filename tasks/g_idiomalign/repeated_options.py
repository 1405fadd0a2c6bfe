"""Task type of choices that may show an option twice: every copy of the right option is right.

Copies are options with the same letters and digits, whatever their case, blanks and punctuation. By likelihood, both
copies have the best score; by letter, a model may name either; chance is 1/2 if two of four options are right. In all
else the type is `choice`, and it scores questions without copies alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from figeval import ChoiceExample, Prediction
from figeval.language.questions import core_of
from figeval.prompts import PromptContext
from figeval.task_types.choice import Choice, by_letter, read_letter
from figeval.task_types.given import Given
from figeval.types import JSON, Reply

MASK = "☐"  # stands for a copy that is not to be recognised in a reply


def copies_of(options: Sequence[str], index: int) -> list[int]:
    """Return the indexes of all options that are the same as this one, including its own."""
    cores = [core_of(option) for option in options]
    return [other for other, core in enumerate(cores) if core == cores[index]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedChoiceExample(ChoiceExample):
    """A choice example whose right options are `gold` and its copies."""

    @property
    def right(self) -> list[int]:
        """Indexes of the right options; empty if the answer is hidden."""
        return [] if self.gold is None else copies_of(self.options, self.gold)


def read_reply(example: ChoiceExample, context: PromptContext, reply: Reply) -> Prediction:
    """Return the option that a reply names.

    If its text is that of two options, the letter before it decides, as in "C. fit as a fiddle"; the text alone names
    the first of them.
    """
    prediction = read_letter(example, context, reply)
    if prediction.status != "ambiguous":
        return prediction
    readings = (read_letter(version, context, reply) for version in without_copies(example))
    return next((reading for reading in readings if reading.status == "ok"), prediction)


def without_copies(example: ChoiceExample) -> Iterator[ChoiceExample]:
    """Yield the example once for each option that has copies, with these masked."""
    for index in range(len(example.options)):
        if copies := {*copies_of(example.options, index)} - {index}:
            options = [MASK if other in copies else option for other, option in enumerate(example.options)]
            yield replace(example, options=tuple(options))


BY_LETTER = by_letter(read_reply)
ACCURACIES = ("acc", "acc_norm", "acc_pmi", "acc_of_all")


class RepeatedChoice(Choice):
    """Pick one of a few options as in `choice`, where an option may be shown twice and either copy is right."""

    name = "g_idiomalign_choice"
    Example = RepeatedChoiceExample
    template = f"_default/{Choice.name}.jinja"  # the questions are the same
    routes = tuple(BY_LETTER if route.name == BY_LETTER.name else route for route in Choice.routes)  # type: ignore[assignment]
    metrics = tuple(  # type: ignore[assignment]
        replace(listed, target=f"{__package__}.repeated_metrics:{listed.name}") if listed.name in ACCURACIES else listed
        for listed in Choice.metrics
    )

    def row(self, example: ChoiceExample, prediction: Prediction) -> JSON:
        """Return the row of a choice, with every copy of the right option as right."""
        row = super().row(example, prediction)
        if "choice" in row and example.gold is not None:
            row["choice"] = {**row["choice"], "right": copies_of(example.options, example.gold)}
        return row

    def given(self, example: ChoiceExample, content: Given, labels: Sequence[str]) -> Prediction:
        """Return the option that is named or has the best score; a text names the first of its copies."""
        texts = [option.strip() for option in example.options]
        if isinstance(content.value, str) and texts.count(content.value.strip()) > 1:
            content = replace(content, value=texts.index(content.value.strip()))
        return super().given(example, content, labels)

    def human_question(self, example: ChoiceExample) -> tuple[str, Sequence[str], int] | None:
        """Return the question with each option once."""
        if example.gold is None:
            return None
        firsts = list(dict.fromkeys(copies_of(example.options, index)[0] for index in range(len(example.options))))
        right = firsts.index(copies_of(example.options, example.gold)[0])
        return example.query, [example.options[index] for index in firsts], right
