"""What a model wrote → a prediction. Stored replies can be read again, without the model (`figeval rescore`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from figeval.answers.extract import Extracted, extract_choice, extract_label, strip_reasoning
from figeval.answers.extract.declining import REFUSAL, not_written
from figeval.answers.places import locate
from figeval.answers.quotes import NO_QUOTE, quotation
from figeval.errors import CapabilityError
from figeval.task_types.briefing import Briefing
from figeval.task_types.shown import LETTERS
from figeval.types import NO_SPAN, ChoiceExample, GenerationExample, PairExample, Prediction, Reply, SpanExample, Status

Reader: TypeAlias = Callable[[Any, Briefing, "Reply | str"], Prediction]
BEGINNING = 80  # characters of a written text; further on it is somebody in the story who declines


def letters_of(example: ChoiceExample) -> str:
    """The letters of an example's options. Raises `CapabilityError` where there are not enough."""
    n = len(example.options)
    if n > len(LETTERS):
        raise CapabilityError(
            f"{example.id!r} has {n} options, more than the {len(LETTERS)} letters; take another --route, or leave the "
            "task out"
        )
    return LETTERS[:n]


def read_letter(example: ChoiceExample, _briefing: Briefing, output: Reply | str) -> Prediction:
    """The option that a reply names."""
    reply = heard(output)
    if reply.finish == "error":
        return unanswered(example.id, reply)
    found = extract_choice(reply, example.options, letters_of(example))
    return understood(example.id, reply, found, found.index)


def read_word(example: PairExample, briefing: Briefing, output: Reply | str) -> Prediction:
    """The label whose word a reply says."""
    reply = heard(output)
    if reply.finish == "error":
        return unanswered(example.id, reply)
    found = extract_label(reply, [briefing.words(label) for label in briefing.labels])
    value = None if found.index is None else briefing.labels[found.index]
    return understood(example.id, reply, found, value, briefing.labels)


def read_quote(example: SpanExample, _briefing: Briefing, output: Reply | str) -> Prediction:
    """The stretch of the text that a reply quotes; `scores` are how like the quotation is to it, 1 if verbatim. A reply
    whose JSON holds no quotation says that there is no such stretch.
    """
    reply = heard(output)
    if reply.finish == "error":
        return unanswered(example.id, reply)
    said = quotation(reply, example)
    if said.rule == NO_QUOTE:
        return Prediction(example_id=example.id, value=NO_SPAN, raw=reply.text, finish=reply.finish)
    place = locate(said.quote, example.text) if said.status == "ok" else None
    return Prediction(
        example_id=example.id,
        value=place.span if place else None,
        scores=(place.likeness,) if place else (),
        status="absent" if place and place.span is None else said.status,
        raw=reply.text,
        finish=reply.finish,
    )


def read_text(example: GenerationExample, _briefing: Briefing, output: Reply | str) -> Prediction:
    """The whole reply without reasoning. One that was cut off at the limit is a text all the same; `finish` tells."""
    reply = heard(output)
    if reply.finish == "error":
        return unanswered(example.id, reply)
    text = strip_reasoning(reply.text).strip()
    return understood(example.id, reply, Extracted(_written(reply, text), None, "whole_text"), text)


def _written(reply: Reply, text: str) -> Status:
    """Whether there is a text; what declines from its first words on is none, unless somebody says so in quotes."""
    if found := not_written(reply, text):
        return found[0]
    declines = REFUSAL.search(text[:BEGINNING]) and not text.startswith(('"', "“", "'", "‘"))
    return "refusal" if declines else "ok"


def heard(output: Reply | str) -> Reply:
    """A backend may answer with plain text."""
    return Reply(text=output) if isinstance(output, str) else output


def unanswered(example_id: str, reply: Reply) -> Prediction:
    """There is no reply, only why there is none."""
    return Prediction(example_id=example_id, value=None, status="error", finish="error", error=reply.error)


def understood(
    example_id: str, reply: Reply, found: Extracted, value: int | str | None, labels: tuple[str, ...] = ()
) -> Prediction:
    """The extractor's verdict; the whole text stays, so that a later extractor can read it again."""
    return Prediction(
        example_id=example_id,
        value=value if found.status == "ok" else None,
        labels=labels,
        status=found.status,
        raw=reply.text,
        finish=reply.finish,
    )


READERS: dict[str, Reader] = {  # by route
    "by_letter": read_letter,
    "by_label_word": read_word,
    "by_json": read_quote,
    "by_decoding": read_text,
}
