"""Answers that are held to a format: how families of servers are told of it, and how the answer is taken out of it.

APIs hold a model to JSON objects, so a letter comes as `{"answer": "B"}`; vLLM can be held to the letter itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from figeval.io.json_files import parse_json
from figeval.types import JSON, AnswerFormat

KEY = "answer"
MAX_WRAPPER_TOKENS = 32  # tokens for the object around a choice; some models put line breaks between all of its parts
NAME = "answer"  # of the schema, and of the tool


def object_schema(answer: AnswerFormat) -> JSON:
    """Return the JSON Schema of an object; choices are those of its only key."""
    object_format = answer if answer.schema else AnswerFormat.of_object({KEY: answer.json_schema})
    return object_format.json_schema


def by_response_format(answer: AnswerFormat) -> JSON:
    """Return the field of OpenAI, which vLLM, SGLang, llama.cpp and OpenRouter also know."""
    schema = {"name": NAME, "strict": True, "schema": object_schema(answer)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def by_json_object(answer: AnswerFormat) -> JSON:
    """Return the field of llama-cpp-python and its relatives."""
    return {"response_format": {"type": "json_object", "schema": object_schema(answer)}}


def by_structured_outputs(answer: AnswerFormat) -> JSON:
    """Return the field of vLLM."""
    exact = {"json": answer.json_schema} if answer.schema else {"choice": list(answer.choices)}
    return {"structured_outputs": exact}


def by_guided(answer: AnswerFormat) -> JSON:
    """Return the field of vLLM before 0.11."""
    return {"guided_json": answer.json_schema} if answer.schema else {"guided_choice": list(answer.choices)}


def by_output_config(answer: AnswerFormat) -> JSON:
    """Return the field of Anthropic, whose schemas know no greatest number of items."""
    return {"output_config": {"format": {"type": "json_schema", "schema": without("maxItems", object_schema(answer))}}}


def by_tool(answer: AnswerFormat) -> JSON:
    """Return the fields of Anthropic for models before Claude 4.5, which are made to call a tool with the answer."""
    tool = {"name": NAME, "description": "Give the answer.", "input_schema": object_schema(answer)}
    return {"tools": [tool], "tool_choice": {"type": "tool", "name": NAME}}


OPENAI: Mapping[str, Callable[[AnswerFormat], JSON]] = {
    "response_format": by_response_format,
    "json_object": by_json_object,
    "structured_outputs": by_structured_outputs,
    "guided": by_guided,
}
ANTHROPIC: Mapping[str, Callable[[AnswerFormat], JSON]] = {"output_config": by_output_config, "tool": by_tool}
BARE_STYLES = frozenset({"structured_outputs", "guided"})  # hold a model to a choice without an object around it


def wrapping(answer: AnswerFormat | None, style: str) -> int:
    """Return the number of tokens that an answer may have around a choice."""
    return 0 if answer is None or answer.schema or style in BARE_STYLES else MAX_WRAPPER_TOKENS


def without(key: str, schema: JSON) -> JSON:
    """Return a schema without a keyword, at any depth."""
    return {
        name: without(key, value) if isinstance(value, dict) else value for name, value in schema.items() if name != key
    }


def unwrap_choice(text: str, answer: AnswerFormat) -> str:
    """Return the choice that a JSON object names; any other text is returned as it is."""
    value = parse_object(text)
    choice = value.get(KEY)
    return choice if not answer.schema and isinstance(choice, str) else text


def keeps_to(text: str, answer: AnswerFormat) -> bool:
    """Return whether an unwrapped answer has the format, as far as the keys of an object."""
    if not answer.schema:
        return text.strip() in answer.choices
    return set(parse_object(text)) == set(answer.json_schema["properties"])


def parse_object(text: str) -> JSON:
    """Return a text as a JSON object; {} if it is none."""
    try:
        value = parse_json(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def as_text(value: object) -> str:
    """Return the input of a tool as the text of an answer."""
    return json.dumps(value, ensure_ascii=False)
