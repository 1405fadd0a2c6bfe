"""Make predictions of replies: of one that failed, and of what the extractor found in one."""

from __future__ import annotations

from figeval.answers.extract.decide import Extracted
from figeval.types import Prediction, Reply


def heard(output: Reply | str) -> Reply:
    """Return what a model wrote as a `Reply`; a model may answer with plain text."""
    return Reply(text=output) if isinstance(output, str) else output


def unanswered(example_id: str, reply: Reply) -> Prediction:
    """Return the prediction where there is no reply, only why there is none (`reply.finish` is `error`)."""
    return Prediction(example_id=example_id, value=None, status="error", finish="error", error=reply.error)


def understood(
    example_id: str, reply: Reply, found: Extracted, value: int | str | None, labels: tuple[str, ...] = ()
) -> Prediction:
    """Return the extractor's verdict; the whole text stays, so that a later extractor can read it again."""
    return Prediction(
        example_id=example_id,
        value=value if found.status == "ok" else None,
        labels=labels,
        status=found.status,
        raw=reply.text,
        finish=reply.finish,
    )
