"""Judge what servers send in place of an answer: errors of any status, and refusals of safety filters.

Many servers put an error into a body with status 200, because the response had begun, or because they pass on what
another server said. Such an error is judged as if it had come with the status that its code, type or text names.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus

from figeval.io.json_files import parse_json
from figeval.io.text import one_line, whole_number
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
MODERATION_KEYS = ("reasons", "flagged_input", "flagged", "moderation", "categories")
"""Keys of the data with which a moderation says what it found."""

TOO_LONG = re.compile(
    r"context.?length.?exceeded|maximum context length|too many (input |prompt )?tokens"
    r"|exceed\w*.{0,80}\b(context|token limit|max\w* (number of )?((input|prompt|sequence|total) )?(tokens|length))"
    r"|\b(context|prompt|input|sequence|tokens)\b.{0,80}\bexceed\w*.{0,80}\b(length|tokens|max\w*|limit|window|size)"
    r"|\b(context|prompt|input|sequence)\b.{0,30}\b(length|tokens|size|window)\b.{0,60}\bexceed"
    r"|\b(context|prompt|input|sequence|request|messages?)\b.{0,40}\btoo (long|large)|\btext\b.{0,10}\btoo long"
    r"|\btoken (limit|count)\b.{0,40}\bexceed|\bmax\w* (input|prompt|context) (chars|characters|tokens|length|size)\b"
    r"|\b(tokens?|inputs?|prompt|context|length).{0,60}\b(must|should) (have|be)\b.{0,20}(<|less|fewer|most|below|\[)",
    re.IGNORECASE,
)
CROWDED = re.compile(
    r"rate.?limit|too many (concurrent )?requests|\bper.?(sec|min|hour|day)|concurren"
    r"|\bquota\b.{0,30}\b(exceed|exhaust|reach)|exceed\w*.{0,40}\bquota|\b(hourly|daily|monthly|request) .{0,20}limit"
    r"|\bwait\b|(retry|try again).?(after|later|in\b)",
    re.IGNORECASE,
)
LATE = re.compile(r"deadline|time.?out|timed out|\b(took|tak(es|ing)) too long", re.IGNORECASE)
OVERLOADED = re.compile(r"\bqueue|out of memory|memory limit|exceed\w* memory", re.IGNORECASE)
BROKE = frozenset({"insufficient_quota", "billing_hard_limit_reached", "credit_balance_exhausted"})
BROKE_TEXT = re.compile(
    r"\binsufficient (account )?(balance|credits?|funds)|\b(balance|credit)\b.{0,9}\b(too low|insufficient|not enough)",
    re.IGNORECASE,
)
BAD_KEY = re.compile(
    r"(invalid|incorrect|wrong|missing|no) api.?key|unauthori[sz]ed"
    r"|api.?key.{0,9}\b(not (valid|found)|invalid|expired)",
    re.IGNORECASE,
)
STATUS_PREFIX = re.compile(r"\W*+(?:https?\s*+)?(?:error|status|code|[\s:(\[-])*+([45]\d\d)\b", re.IGNORECASE)
MAX_READ_CHARS = 2_000  # of a message, for its status
PHRASES: tuple[tuple[int, re.Pattern[str]], ...] = (
    (402, BROKE_TEXT),
    *((429, CROWDED), (504, LATE), (503, OVERLOADED)),  # these pass, even where they mention tokens or a context
    (400, TOO_LONG),
    (400, FLAGGED),
    (401, BAD_KEY),
)
STATUS_NAMES = {  # codes and types of errors without punctuation and "error" → status of a response with such an error
    400: "invalidrequest invalidargument invalidparameter failedprecondition "
    "contextlengthexceeded stringabovemaxlength",
    401: "invalidapikey incorrectapikey authentication authfailure unauthenticated invalidauthentication",
    402: "billing insufficientcredits insufficientbalance arrearage",
    403: "permission permissiondenied accessdenied",
    404: "modelnotfound",
    413: "requesttoolarge payloadtoolarge",
    422: "validation inputvalidation",
    429: "ratelimit ratelimitexceeded ratelimited ratelimitreached resourceexhausted throttling",
    500: "server api internal",
    503: "unavailable engineoverloaded",
    504: "timeout deadlineexceeded",
    529: "overloaded",
}
NUMERIC_CODES: Mapping[str, Mapping[int, str]] = {  # field → number → what an error with it is called elsewhere
    "statuscode": {  # MiniMax
        **dict.fromkeys((1004, 2049), "invalid_api_key"),
        **dict.fromkeys((1002, 1041, 2056), "rate_limit"),
        **dict.fromkeys((1026, 1027), "sensitive"),
        **dict.fromkeys((1042, 2013), "invalid_request"),
        1001: "timeout",
        1008: "insufficient_balance",
        1024: "internal",
    },
    "errorcode": {  # Baidu
        **dict.fromkeys((13, 14, 110, 111), "invalid_api_key"),
        **dict.fromkeys((4, 17, 18, 19, 336501, 336502), "rate_limit"),
        **dict.fromkeys((100, 336001, 336002, 336003), "invalid_request"),
        **dict.fromkeys((336007, 336103), "context_length_exceeded"),
        **dict.fromkeys((2, 336100), "unavailable"),
        6: "permission_denied",
        336000: "internal",
    },
    "code": {  # Zhipu
        **dict.fromkeys((1002, 1003, 1004), "invalid_api_key"),
        **dict.fromkeys((1302, 1303, 1304, 1305, 1308), "rate_limit"),
        **dict.fromkeys((1210, 1213, 1214), "invalid_request"),
        1113: "insufficient_balance",
        1211: "model_not_found",
        1261: "context_length_exceeded",
        1301: "sensitive",
    },
}
ANSWER_KEYS = ("choices", "content", "meta_info")  # keys of bodies that hold an answer
# Names of fields as `fields` returns them: of codes, the most specific first, of texts, and of what describes an error.
CODE_KEYS = ("code", "errorcode", "errcode", "status", "statuscode", "type", "errortype")
MESSAGE_KEYS = ("message", "msg", "detail", "statusmsg", "errormsg", "errmsg", "errormessage")
NESTED_KEYS = ("error", "errors", "innererror", "metadata", "raw", "baseresp", "detail")
MAX_HOLDERS = 16
DEFAULT_STATUS = HTTPStatus.BAD_GATEWAY  # what an error without a status is: it may pass


def plain_name(text: str) -> str:
    """Return a name of an error or a field as `ratelimit`, without what different servers add to it."""
    return re.sub(r"[^a-z]", "", text.lower())


def error_name(text: str) -> str:
    """Return a code or type of an error without punctuation and the word error."""
    return re.sub("error|exception", "", plain_name(text))


STATUSES = {error_name(status.phrase): int(status) for status in HTTPStatus if status >= HTTPStatus.BAD_REQUEST} | {
    name: status for status, names in STATUS_NAMES.items() for name in names.split()
}


def fields(holder: Mapping[str, object]) -> Mapping[str, object]:
    """Return what an object says, by names in which `errorCode`, `error_code` and `ErrorCode` are the same."""
    return {plain_name(name): value for name, value in holder.items()}


def fault_in(body: JSON) -> JSON | None:
    """Return the error in a body of status 200 in its usual form, `{"error": …}`, or None if there is none."""
    by_name = fields(body)
    if says_anything(by_name.get("error")):
        return {**body, "error": by_name["error"]}
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(first, Mapping) and says_anything(first.get("error")):  # OpenRouter, of a provider that failed midway
        return {"error": first["error"]}
    if body.get("object") == "error" or body.get("type") == "error":  # vLLM before 0.10; Anthropic
        return {"error": body}
    return _other_fault(body, by_name)


def _other_fault(body: JSON, by_name: Mapping[str, object]) -> JSON | None:
    """Return the error in a body that is not called one, with its `fields`."""
    base = by_name.get("baseresp")
    if isinstance(base, Mapping) and is_number(fields(base).get("statuscode")):  # MiniMax, even beside half an answer
        return {"error": base}
    if any(map(body.get, ANSWER_KEYS)):
        return None
    if says_anything(by_name.get("errors")):
        return {"error": body["errors"]}
    inside = by_name.get("response")
    if isinstance(inside, Mapping) and says_anything(fields(inside).get("error")):  # Tencent
        return {"error": fields(inside)["error"]}
    has_code = is_number(by_name.get("errorcode")) or as_status(by_name.get("code"))  # Baidu; Alibaba
    has_text = any(isinstance(by_name.get(key), str) and by_name[key] for key in MESSAGE_KEYS)  # Alibaba, FastAPI
    return {"error": body} if has_code or has_text or says_anything(by_name.get("detail")) else None


def is_number(code: object) -> bool:
    """Return whether a code is a number other than 0, which stands for success."""
    return isinstance(code, int | str) and not isinstance(code, bool) and (whole_number(str(code)) or 0) > 0


def says_anything(error: object) -> bool:
    """Return whether an error is one: beside a good answer, some servers send its fields without values."""
    if isinstance(error, Mapping):
        return any(error.values())
    return any(map(says_anything, error)) if isinstance(error, list) else bool(error)


def status_of(fault: JSON) -> int:
    """Return the status of a response with this error: by its codes, else by its text, else 502."""
    text = complaint(fault)[:MAX_READ_CHARS]
    if status := next(filter(None, map(as_status, (*identifiers(fault), text))), 0):
        return status
    if begins := STATUS_PREFIX.match(text):
        return int(begins[1])
    return next((status for status, phrase in PHRASES if phrase.search(text)), DEFAULT_STATUS)


def as_status(value: object) -> int:
    """Return the status that a code or type names; 0 if it names none."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return 0
    if isinstance(value, int):
        return value if HTTPStatus.BAD_REQUEST <= value < 600 else 0
    if begins := re.match(r"\s*([45]\d\d)\b", value):
        return int(begins[1])
    names = map(error_name, (value, *value[:MAX_READ_CHARS].split(".")))  # `Throttling.RateQuota` (Alibaba)
    return next((STATUSES[name] for name in names if name in STATUSES), 0)


def identifiers(fault: JSON) -> Iterator[object]:
    """Yield the codes and types that a server gives to an error, the most specific first.

    Numbers that mean something at one service only are given by a name (`NUMERIC_CODES`).
    """
    for holder in map(fields, holders(fault)):
        for key in CODE_KEYS:
            if value := holder.get(key):
                number = whole_number(str(value)) if isinstance(value, int | str) else None
                yield NUMERIC_CODES.get(key, {}).get(number or 0, value)


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
            by_name = fields(inner)
            waiting.extend(by_name[key] for key in NESTED_KEYS if key in by_name)
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
    holder_fields = map(fields, holders(fault))
    message = next((holder[key] for holder in holder_fields for key in MESSAGE_KEYS if is_text(holder.get(key))), None)
    return one_line(str(message or content.decode("utf-8", "replace") or error or ""))


def is_text(value: object) -> bool:
    """Return whether a value is a text that says something."""
    return isinstance(value, str) and bool(value.strip())


def is_refusal(status: int, fault: JSON, message: str) -> bool:
    """Return whether a filter refused the question: by a code, by the data of a moderation, or by what it says."""
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.TOO_MANY_REQUESTS):
        return False
    if any(code == "invalid_prompt" or WITHHELD.search(code) for code in codes(fault)):
        return True
    if status not in (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN):
        return False
    moderations = (any(map(holder.get, MODERATION_KEYS)) or any(hits(holder)) for holder in holders(fault))
    return any(moderations) or bool(FLAGGED.search(message))


def is_too_long(status: int, fault: JSON, message: str) -> bool:
    """Return whether a question is longer than the model can read, which no other attempt changes."""
    may_be = status in (400, 413, 422) or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if not may_be or any(map(TOO_LONG.search, codes(fault))):
        return may_be
    passes = any(phrase.search(message) for phrase in (CROWDED, LATE, OVERLOADED))
    return not passes and bool(TOO_LONG.search(message))


def is_bad_key(status: int, fault: JSON, message: str) -> bool:
    """Return whether an error is about the key, which Gemini says with the status of a bad request."""
    if status != HTTPStatus.BAD_REQUEST:
        return status == HTTPStatus.UNAUTHORIZED
    return names_status(fault, HTTPStatus.UNAUTHORIZED) or bool(BAD_KEY.search(message))


def is_broke(fault: JSON, message: str) -> bool:
    """Return whether the account has no credit."""
    by_code = bool(codes(fault) & BROKE) or names_status(fault, HTTPStatus.PAYMENT_REQUIRED)
    return by_code or bool(BROKE_TEXT.search(message))


def names_status(fault: JSON, status: int) -> bool:
    """Return whether a code of an error names a status."""
    return any(as_status(code) == status for code in codes(fault))


def block_reason(body: JSON) -> str:
    """Return why a server gave no answer to a prompt, or "" if it does not say that it withheld one.

    Gemini puts the reason into `promptFeedback` or a candidate, and Azure lists what its filters found in the prompt.
    """
    for holder in (body.get("promptFeedback"), body.get("prompt_feedback"), body):
        reason = isinstance(holder, Mapping) and (holder.get("blockReason") or holder.get("block_reason"))
        if reason:
            return one_line(str(reason))
    candidates = body.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        reason = isinstance(candidate, Mapping) and fields(candidate).get("finishreason")
        if isinstance(reason, str) and WITHHELD.search(reason):
            return one_line(reason)
    results = body.get("prompt_filter_results")
    verdicts = results if isinstance(results, list) else ()
    return ", ".join(filter_name for verdict in verdicts for filter_name in hits(verdict))


def hits(result: object) -> Iterator[str]:
    """Yield the names of Azure's filters that a prompt has not passed."""
    for key in ("content_filter_result", "content_filter_results"):
        filters = result.get(key) if isinstance(result, Mapping) else None
        for name, verdict in filters.items() if isinstance(filters, Mapping) else ():
            if isinstance(verdict, Mapping) and verdict.get("filtered") is True:
                yield one_line(str(name))
