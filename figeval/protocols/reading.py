"""What a model wrote → a prediction. Stored replies can be read again, without the model (`figeval rescore`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from figeval.errors import CapabilityError
from figeval.protocols.briefing import Briefing
from figeval.protocols.extract import Extracted, extract_choice, extract_label
from figeval.protocols.shown import LETTERS
from figeval.types import ChoiceExample, PairExample, Prediction, Reply

Reader: TypeAlias = Callable[[Any, Briefing, "Reply | str"], Prediction]


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


READERS: dict[str, Reader] = {"by_letter": read_letter, "by_label_word": read_word}  # by route
