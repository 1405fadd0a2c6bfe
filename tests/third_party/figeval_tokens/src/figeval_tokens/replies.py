"""What a language model writes, read back: a JSON list of tags, or a token/TAG pair for every token."""

import json

from figeval import Prediction, ReplyReader, strip_reasoning

VERSION = "1"  # raise it when a reply is read in another way; then `figeval rescore`


def read_tags(example, context, reply):
    """The tags that a reply gives, if it gives one of the task's for each token."""
    text = strip_reasoning(reply.text).strip()
    tags = in_json(text) or in_pairs(text, example.tokens)
    is_complete = tags is not None and len(tags) == len(example.tokens) and set(tags) <= set(context.labels)
    return Prediction(
        example_id=example.id,
        value=tags if is_complete else None,
        status="ok" if is_complete else why_not(reply, text),
    )


def in_json(text):
    """The strings of a JSON list, or of the list under `tags`; None if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    value = value.get("tags") if isinstance(value, dict) else value
    return tuple(value) if isinstance(value, list) and all(isinstance(tag, str) for tag in value) else None


def in_pairs(text, tokens):
    """The tags behind the tokens; None unless these are the tokens of the example, in their order."""
    pairs = [pair.rpartition("/") for pair in text.split()]
    if [token for token, _, _ in pairs] != list(tokens):
        return None
    return tuple(tag for _, _, tag in pairs)


def why_not(reply, text):
    """What to say of a reply without tags."""
    if reply.finish == "refusal":
        return "refusal"
    if not text:
        return "empty"
    return "truncated" if reply.finish == "length" else "unparseable"


READER = ReplyReader(read_tags, VERSION)
