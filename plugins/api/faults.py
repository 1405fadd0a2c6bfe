"""What servers say in place of an answer: errors, with whatever status they come, and refusals of safety filters.

Many servers put an error into a body with status 200, because the response had begun, or because they pass on what
another server said. Such an error is judged as if it had come with the status that its code, type or text names.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus

from figeval.jsonfile import parse_json
from figeval.text import one_line
from figeval.types import JSON

WITHHELD = re.compile(
    r"safety|recitation|prohibited|^blocked|(content|prompt).?blocked|block.?list|content.?(filter|policy)"
    r"|policy.?violation|refusal|spii|guardrail|moderat|sensitive|toxic|data.?inspection",
    re.IGNORECASE,
)
"""Occurs in the finish reasons and error codes with which a filter or the model itself refuses (OpenAI, Azure, Gemini,
Anthropic, Bedrock, Cohere, Alibaba, Zhipu)."""

FLAGGED = re.compile(
    r"\b(input|prompt|content|request|messages?|text)\b.{0,40}\bflagged"
    r"|content (management |usage )?polic|content filter|safety (system|filter|setting)",
    re.IGNORECASE,
)
MODERATION = ("reasons", "flagged_input", "flagged", "moderation", "categories")
"""Keys of the data with which a moderation says what it found."""

TOO_LONG = re.compile(
    r"context.?length.?exceeded|maximum context length|too many (input |prompt )?tokens"
    r"|exceed\w*.{0,80}\b(context|token limit|max\w* (number of )?((input|prompt|sequence|total) )?(tokens|length))"
    r"|\b(context|prompt|input|sequence|tokens)\b.{0,80}\bexceed\w*.{0,80}\b(length|tokens|max\w*|limit|window|size)"
    r"|\b(context|prompt|input|sequence)\b.{0,30}\b(length|tokens|size|window)\b.{0,60}\bexceed"
    r"|\b(context|prompt|input|sequence|request|messages?)\b.{0,40}\btoo (long|large)|\btext\b.{0,10}\btoo long",
    re.IGNORECASE,
)
CROWDED = re.compile(
    r"rate.?limit|too many (concurrent )?requests|quota exceeded|\bper.?(sec|min|hour|day)|concurren"
    r"|\bwait\b|(retry|try again).?(after|later|in\b)",
    re.IGNORECASE,
)
LATE = re.compile(r"deadline|time.?out|timed out|\b(took|tak(es|ing)) too long", re.IGNORECASE)
FULL = re.compile(r"\bqueue|out of memory|memory limit|exceed\w* memory", re.IGNORECASE)
BROKE = frozenset({"insufficient_quota", "billing_hard_limit_reached", "credit_balance_exhausted"})
BROKE_TEXT = "credit balance is too low"
BEGINNING = re.compile(r"\W*+(?:https?\s*+)?(?:error|status|code|[\s:(\[-])*+([45]\d\d)\b", re.IGNORECASE)
MAX_READ_CHARS = 2_000  # of a message, for its status
PHRASES: tuple[tuple[int, re.Pattern[str]], ...] = (
    *((429, CROWDED), (504, LATE), (503, FULL)),  # these pass, even where they mention tokens or a context
    (400, TOO_LONG),
    (400, FLAGGED),
    (401, re.compile(r"(invalid|incorrect|wrong|missing|no) api.?key|unauthori[sz]ed", re.IGNORECASE)),
)
NAMED = {  # codes and types of errors without punctuation and "error" → status of a response with such an error
    400: "invalidrequest badrequest invalidargument failedprecondition contextlengthexceeded stringabovemaxlength",
    401: "invalidapikey incorrectapikey authentication unauthenticated unauthorized invalidauthentication",
    402: "billing paymentrequired insufficientcredits insufficientbalance",
    403: "permission permissiondenied forbidden accessdenied",
    404: "notfound modelnotfound",
    408: "requesttimeout",
    413: "requesttoolarge payloadtoolarge",
    422: "unprocessableentity",
    429: "ratelimit ratelimitexceeded ratelimited ratelimitreached toomanyrequests resourceexhausted throttling",
    500: "server api internal internalserver",
    503: "unavailable serviceunavailable engineoverloaded",
    504: "timeout deadlineexceeded gatewaytimeout",
    529: "overloaded",
}
STATUSES = {name: status for status, names in NAMED.items() for name in names.split()}
ANSWERS = ("choices", "content", "meta_info")  # keys of bodies that hold an answer
MESSAGES = ("message", "msg", "detail")
INSIDE = ("error", "errors", "innererror", "inner_error", "metadata", "raw")  # what describes an error further
MAX_HOLDERS = 16
UNKNOWN = HTTPStatus.BAD_GATEWAY  # what an error without a status is: it may pass


def fault_in(body: JSON) -> JSON | None:
    """Return the error in a body of status 200 in its usual form, `{"error": …}`, or None if there is none."""
    if says_anything(body.get("error")):
        return body
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(first, Mapping) and says_anything(first.get("error")):  # OpenRouter, of a provider that failed midway
        return {"error": first["error"]}
    if body.get("object") == "error" or body.get("type") == "error":  # vLLM before 0.10; Anthropic
        return {"error": body}
    if any(key in body for key in ANSWERS):
        return None
    if says_anything(body.get("errors")):
        return {"error": body["errors"]}
    named = (body[key] for key in MESSAGES if key in body)  # Alibaba, FastAPI
    return {"error": body} if any(said and isinstance(said, str) for said in named) else None


def says_anything(error: object) -> bool:
    """Return whether an error is one: beside a good answer, some servers send its fields without values."""
    if isinstance(error, Mapping):
        return any(error.values())
    return any(map(says_anything, error)) if isinstance(error, list) else bool(error)


def status_of(fault: JSON) -> int:
    """Return the status of a response with this error: by its codes, else by its text, else 502."""
    text = complaint(fault)[:MAX_READ_CHARS]
    named = next((status for value in identifiers(fault) if (status := as_status(value))), 0)
    if named:
        return named
    if begins := BEGINNING.match(text):
        return int(begins[1])
    return next((status for status, phrase in PHRASES if phrase.search(text)), UNKNOWN)


def as_status(value: object) -> int:
    """Return the status that a code or type names; 0 if it names none."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return 0
    if isinstance(value, int):
        return value if HTTPStatus.BAD_REQUEST <= value < 600 else 0
    if begins := re.match(r"\s*([45]\d\d)\b", value):
        return int(begins[1])
    return STATUSES.get(re.sub(r"[^a-z]|error|exception", "", value.lower()), 0)


def identifiers(fault: JSON) -> Iterator[object]:
    """Yield the codes and types that a server gives to an error, the most specific first."""
    for holder in holders(fault):
        yield from (holder[key] for key in ("code", "status", "status_code", "type") if holder.get(key))


def holders(fault: JSON) -> Iterator[Mapping[str, object]]:
    """Yield the objects that describe an error: those in it, also as JSON text, from the outside in, and the body."""
    waiting = deque([fault.get("error")])
    for _ in range(MAX_HOLDERS):
        if not waiting:
            break
        inner = as_json(waiting.popleft())
        if isinstance(inner, list):
            waiting.extend(inner[:MAX_HOLDERS])
        elif isinstance(inner, Mapping):
            yield inner
            waiting.extend(inner[key] for key in INSIDE if key in inner)
    yield fault


def as_json(value: object) -> object:
    """Return what a text means that is a JSON object or list, as of an error that was passed on; else the value."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            return parse_json(value)
    return value


def codes(fault: JSON) -> set[str]:
    """Return all codes that a server gives to an error."""
    return {str(value) for value in identifiers(fault)}


def complaint(fault: JSON, content: bytes = b"") -> str:
    """Return the server's error message as one line, from any of its usual places, else the whole content."""
    error = fault.get("error")
    if isinstance(error, str) and error and as_json(error) is error:
        return one_line(error)
    said = next((holder[key] for holder in holders(fault) for key in MESSAGES if holder.get(key)), None)
    return one_line(str(said or content.decode("utf-8", "replace") or error or ""))


def is_refusal(status: int, fault: JSON, said: str) -> bool:
    """Return whether a filter refused the question: by a code, by the data of a moderation, or by what it says."""
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.TOO_MANY_REQUESTS):
        return False
    if any(code == "invalid_prompt" or WITHHELD.search(code) for code in codes(fault)):
        return True
    if status not in (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN):
        return False
    moderated = (any(map(holder.get, MODERATION)) or any(hits(holder)) for holder in holders(fault))
    return any(moderated) or bool(FLAGGED.search(said))


def is_too_long(status: int, fault: JSON, said: str) -> bool:
    """Return whether a question is longer than the model can read, which no other attempt changes."""
    may_be = status in (400, 413, 422) or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if not may_be or any(map(TOO_LONG.search, codes(fault))):
        return may_be
    passes = any(phrase.search(said) for phrase in (CROWDED, LATE, FULL))
    return not passes and bool(TOO_LONG.search(said))


def is_broke(fault: JSON, said: str) -> bool:
    """Return whether the account has no credit."""
    return bool(codes(fault) & BROKE) or BROKE_TEXT in said


def block_reason(body: JSON) -> str:
    """Return why a server gave no answer to a prompt, or "" if it does not say that it withheld one.

    Gemini puts the reason into `promptFeedback`, and Azure lists what its filters found in the prompt.
    """
    for holder in (body.get("promptFeedback"), body.get("prompt_feedback"), body):
        reason = isinstance(holder, Mapping) and (holder.get("blockReason") or holder.get("block_reason"))
        if reason:
            return one_line(str(reason))
    results = body.get("prompt_filter_results")
    return ", ".join(filter_name for one in (results if isinstance(results, list) else ()) for filter_name in hits(one))


def hits(result: object) -> Iterator[str]:
    """Yield the names of Azure's filters that a prompt has not passed."""
    for key in ("content_filter_result", "content_filter_results"):
        filters = result.get(key) if isinstance(result, Mapping) else None
        for name, verdict in filters.items() if isinstance(filters, Mapping) else ():
            if isinstance(verdict, Mapping) and verdict.get("filtered") is True:
                yield one_line(str(name))
