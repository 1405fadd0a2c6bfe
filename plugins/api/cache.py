"""What a reply is remembered by, and how it lies in the archive."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from figeval.files import home
from figeval.jsonfile import parse_json
from figeval.text import cleaned, valid
from figeval.types import Reply

from .settings import ApiSettings

ANSWERED = ("stop", "length", "refusal")  # how a reply that is kept has ended


def archive_file() -> Path:
    """Where finished replies lie; all API models share it."""
    return home() / "api_memo" / "answers.sqlite3"


def key_of(url: str, served: str, body: bytes, settings: ApiSettings) -> str:
    """sha256 over the address, what it says it serves, and all that is sent there but the key: model, conversation,
    decoding options.

    Where answers are drawn, the seed is part of it, so that another seed gets another sample.
    """
    sample = settings.seed if settings.sampled else None
    return hashlib.sha256(json.dumps([url, served, body.decode("ascii"), sample]).encode()).hexdigest()


def packed(reply: Reply) -> str:
    """A reply as stored. ASCII, since half a surrogate pair is no UTF-8."""
    return json.dumps(asdict(reply))


def unpacked(stored: object) -> Reply | None:
    """A stored reply; None where the row is damaged, so that the question is asked again."""
    if not isinstance(stored, str) or not stored.isascii():  # `packed` writes nothing else
        return None
    try:
        reply = Reply(**cleaned(parse_json(stored), valid))
    except (TypeError, ValueError):
        return None
    texts = (reply.text, reply.reasoning, reply.error)
    whole = all(isinstance(text, str) for text in texts) and reply.finish in ANSWERED
    return reply if whole else None


def cut(reply: Reply, stops: Sequence[str]) -> Reply:
    """The reply up to the first stop text. What the server was told may be less: it takes few of them, or none."""
    places = [place for stop in stops if stop and (place := reply.text.find(stop)) >= 0]
    return replace(reply, text=reply.text[: min(places)], finish="stop") if places else reply
