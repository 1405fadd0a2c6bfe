"""JSON Schemas of task files and suite files, with which editors complete and check keys.

They are made from the same models that read the files, so descriptions, types and defaults are written once. The
draft is 7, the latest that the YAML language server supports.

A file that includes another may leave out any key and remove one with null, so such a file is only checked for unknown
keys and wrong types. Names of types, metrics and routes are suggested, but others are valid: a plugin may have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from figeval.spec.tasks import CorpusSpec, SuiteSpec, TaskSpec
from figeval.task_types.base import TaskType
from figeval.task_types.fields import fields_of
from figeval.types import JSON

DRAFT = "http://json-schema.org/draft-07/schema#"
INCLUDE: JSON = {
    "description": "File of the same folder whose keys are read first. The keys of this file are merged into them, and "
    "null removes one.",
    "type": "string",
}
HAS_INCLUDE: JSON = {"required": ["include"]}


def task_schema(types: Iterable[TaskType[Any]]) -> JSON:
    """Return the JSON Schema of a task file, with the fields of examples of these types."""
    keys = _keys(TaskSpec)
    names = list(types)
    about = {"enum": [kind.name for kind in names], "enumDescriptions": [kind.summary for kind in names]}
    keys["properties"]["type"] = _suggest_values(about, keys["properties"]["type"])
    keys["required"] += ["data", "fields"]
    return _file_schema("Task file of figeval", keys, [_rule(kind) for kind in names])


def suite_schema() -> JSON:
    return _file_schema("Suite file of figeval", _keys(SuiteSpec), [])


class _OfFiles(GenerateJsonSchema):
    """Generator that leaves out the fields that the loader fills in, and titles that repeat the key."""

    def field_is_present(self, field: Any) -> bool:
        return not field.get("serialization_exclude")

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def _keys(model: type[BaseModel]) -> JSON:
    """Return the JSON Schema of a model without references.

    Draft 7 would ignore the description of a key beside a reference.
    """
    schema = model.model_json_schema(schema_generator=_OfFiles)
    inner = schema.pop("$defs", {})

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(child) for child in part]
        if not isinstance(part, dict):
            return part
        resolved = {**inner[part["$ref"].rpartition("/")[2]], **part} if "$ref" in part else part
        return _unite_alternatives({key: plain(value) for key, value in resolved.items() if not _is_noise(key, value)})

    plain_schema: JSON = plain(schema)
    return plain_schema


def _is_noise(key: str, value: Any) -> bool:
    """Return whether it is a resolved reference, the title of a class, or an empty default."""
    if key == "default":
        return value in (None, "", [])  # editors would insert it
    return key == "$ref" or (key == "title" and isinstance(value, str))


def _unite_alternatives(part: JSON) -> JSON:
    """Return a schema with its alternatives in one if they differ in type, as editors show no description beside them.

    Constraints such as `items` or `pattern` concern values of one type only, but an enumeration concerns all values.
    """
    alternatives = part.get("anyOf", [])
    types = [kind.get("type") for kind in alternatives if "enum" not in kind]
    if not alternatives or not all(isinstance(name, str) for name in types) or len(types) < len(alternatives):
        return part
    distinct = [name for name in types if name != "integer" or "number" not in types]
    merged = {word: value for kind in alternatives for word, value in kind.items() if word != "description"}
    return {**merged, **{word: value for word, value in part.items() if word != "anyOf"}, "type": distinct}


def _suggest_values(names: JSON, key: JSON) -> JSON:
    about = {word: value for word, value in key.items() if word in ("description", "default")}
    return {**about, "anyOf": [names, {word: value for word, value in key.items() if word not in about}]}


def _file_schema(title: str, keys: JSON, rules: list[JSON]) -> JSON:
    """Return the JSON Schema of a file with these keys, of which one that includes another may leave out any."""
    values = keys["properties"]
    about = {
        key: {word: one.pop(word) for word in ("description", "default") if word in one} for key, one in values.items()
    }
    merged = {key: _patch(one) for key, one in values.items()}
    depends = {
        "if": HAS_INCLUDE,
        "then": {"properties": merged},
        "else": {"required": keys["required"], "properties": values},
    }
    return {
        "$schema": DRAFT,
        "title": title,
        "description": keys["description"],
        "type": "object",
        "properties": {**about, "include": INCLUDE},
        "additionalProperties": False,
        "allOf": [depends, *rules],
    }


def _patch(value: JSON) -> JSON:
    """Return the schema of a value that is merged into an included one: a part of it, or null to remove it."""
    part, null = _part(value), {"type": "null"}
    if "anyOf" in part:
        return {**part, "anyOf": [*part["anyOf"], *([null] if null not in part["anyOf"] else [])]}
    types = [part["type"]] if isinstance(part["type"], str) else part["type"]
    return {**part, "type": [*types, *(["null"] if "null" not in types else [])]}


def _part(value: JSON) -> JSON:
    """Return the schema of a part of a value: no key of a mapping is required, and null removes one.

    Lists are replaced as a whole, so their items are the same.
    """
    part = {word: part_of_any for word, part_of_any in value.items() if word != "required"}
    if "anyOf" in part:
        part["anyOf"] = [_part(part_of_any) for part_of_any in part["anyOf"]]
    if "properties" in part:
        part["properties"] = {key: _patch(part_of_any) for key, part_of_any in part["properties"].items()}
    if isinstance(part.get("additionalProperties"), dict):
        part["additionalProperties"] = _patch(part["additionalProperties"])
    return part


def _rule(kind: TaskType[Any]) -> JSON:
    """Return what else the keys of a task of this type must meet: the names of its fields, above all."""
    schema = kind.json_schema()
    fields = {name: {"description": one.get("description", "")} for name, one in schema["properties"].items()}
    shown = {name: fields[name] for name, one in fields_of(kind.Example).items() if one.shown and name in fields}
    metrics, routes = ([one.name for one in several] for several in (kind.metrics, kind.routes))
    task = TaskSpec.model_construct(name="", type=kind.name)
    always = kind.required(task) | {"id"}
    rule: JSON = {
        "properties": {
            "fields": {"properties": fields, "additionalProperties": schema.get("additionalProperties", True)},
            "prompt_fields": {"properties": shown, "additionalProperties": False},
            "metrics": {"items": {"anyOf": [{"enum": metrics}, {"type": "string"}]}},
            "route": {"anyOf": [{"enum": routes}, {"type": ["string", "null"]}]},
        }
    }
    if kind.has_corpus:
        with_corpus = kind.required(task.model_copy(update={"corpus": CorpusSpec(data="")})) | {"id"}
        rows_alone = _unless({"required": ["corpus"]}, _require_fields(fields, always))
        rule |= _unless(HAS_INCLUDE, {**_require_fields(fields, with_corpus), **rows_alone})
    else:
        rule |= _unless(HAS_INCLUDE, _require_fields(fields, always))
    return {"if": {"properties": {"type": {"const": kind.name}}, "required": ["type"]}, "then": rule}


def _unless(condition: JSON, rule: JSON) -> JSON:
    return {"if": condition, "else": rule}


def _require_fields(fields: Iterable[str], names: frozenset[str]) -> JSON:
    """Return the rule that a task file has these fields, in the order of the type."""
    return {"properties": {"fields": {"required": [name for name in fields if name in names]}}}
