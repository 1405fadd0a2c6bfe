"""Keys and storage format of stored replies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from figeval.io.files import home
from figeval.io.json_files import parse_json
from figeval.io.text import cleaned, valid
from figeval.types import Reply

from .api_settings import ApiSettings

STORED_FINISHES = ("stop", "length", "refusal")


def archive_file() -> Path:
    """Return the path of the archive of finished replies, which all API models share."""
    return home() / "api_memo" / "answers.sqlite3"


def key_of(url: str, served_models: str, body: bytes, settings: ApiSettings) -> str:
    """Return a sha256 of the address, the models that its server lists, and the request without its key.

    The request includes model, conversation and decoding options. If answers are sampled, the seed is part of the key,
    so that another seed gets another sample.
    """
    thinks = settings.thinking is not None and settings.thinking.on  # most such models are sampled at any temperature
    sample = settings.seed if settings.sampled or thinks else None
    return hashlib.sha256(json.dumps([url, served_models, body.decode("ascii"), sample]).encode()).hexdigest()


def pack(reply: Reply) -> str:
    """Return a reply in its stored form, which is ASCII because UTF-8 cannot encode half a surrogate pair."""
    return json.dumps(asdict(reply))


def unpack(row: object) -> Reply | None:
    """Return a stored reply, or None if the row is damaged, so that the question is asked again."""
    if not isinstance(row, str) or not row.isascii():  # `pack` writes nothing else
        return None
    try:
        reply = Reply(**cleaned(parse_json(row), valid))
    except (TypeError, ValueError):
        return None
    texts = (reply.text, reply.reasoning, reply.error)
    counts = (reply.answer_tokens, reply.reasoning_tokens)
    is_valid = all(isinstance(text, str) for text in texts) and reply.finish in STORED_FINISHES
    is_valid = is_valid and all(count is None or (type(count) is int and count >= 0) for count in counts)
    return reply if is_valid else None


def cut_at_stops(reply: Reply, stops: Sequence[str]) -> Reply:
    """Return the reply up to the first stop text, since servers accept only a few stop texts or none."""
    positions = [position for stop in stops if stop and (position := reply.text.find(stop)) >= 0]
    return replace(reply, text=reply.text[: min(positions)], finish="stop") if positions else reply
