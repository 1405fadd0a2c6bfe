"""Text of a task file, made from a draft: valid YAML whatever the names of columns and labels are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from figeval.cli.drafting.columns import Column
from figeval.cli.drafting.shapes import CLUSTER, ID, Draft, Sheet
from figeval.io.text import one_line
from figeval.io.yaml_files import yaml_text

MAX_KINDS = 60  # different values of a column for --by
KINDS = "type category genre dialect source difficulty domain kind"
MAX_META = 4
MAX_VARIANTS = 10  # mean number of rows of one question
LANGUAGE = "language lang"


def with_common_fields(draft: Draft, sheet: Sheet) -> Draft:
    """Return a draft with an id, columns for `--by`, clusters and languages, as far as there are such columns."""
    identity = sheet.pick("id", ID, _is_identity)
    fields: dict[str, Any] = {"id": identity.as_text if identity else "row_number | string"}
    reasons = {
        "id": identity.title if identity else "no column that is named like an id has another value in every row"
    }
    fields |= draft.fields
    cluster = sheet.pick("cluster", CLUSTER, lambda c: c.is_text and not c.is_list and len(c.distinct) < len(c.filled))
    if identity is None:
        cluster = cluster or sheet.pick("cluster", ID, _is_recurring)
    kinds = [
        column
        for column in sheet.columns.values()
        if column.word in KINDS.split() and column.is_text and 1 < len(column.distinct) <= MAX_KINDS
    ]
    meta = {_key(cluster): cluster} if cluster else {}
    meta |= {_key(column): column for column in kinds if not column.is_read_by(draft.fields)}
    if meta:
        fields["meta"] = {key: column.as_text for key, column in list(meta.items())[:MAX_META]}
        reasons["meta"] = "columns for --by"
    column = sheet.pick("language", LANGUAGE, lambda column: column.is_text and not column.has_hidden)
    languages = _languages(column) if column else []
    if column is not None and len(languages) > 1:
        fields["language"], reasons["language"] = column.expression, column.title
    return replace(
        draft,
        fields=fields,
        reasons={**reasons, **draft.reasons},
        cluster=_key(cluster) if cluster else "",
        language=languages,
    )


def _is_identity(column: Column) -> bool:
    values = column.values
    return (
        column.mean_chars <= 200
        and len(set(map(str, values))) == len(values)
        and None not in values
        and "" not in values
    )


def _is_recurring(column: Column) -> bool:
    """Return whether a few rows each share a value, as variants of one question share its number."""
    size = len(column.values)
    return not column.has_hidden and not column.is_list and size / MAX_VARIANTS <= len(column.distinct) < size


def _key(column: Column) -> str:
    return re.sub(r"\W+", "_", column.name.lower(), flags=re.ASCII).strip("_") or "kind"


def _languages(column: Column) -> list[str]:
    """Return the languages of a column if all its values are tags in their usual form."""
    import langcodes

    tags = column.distinct
    usual = all(langcodes.tag_is_valid(tag) and langcodes.standardize_tag(tag) == tag for tag in tags)
    return tags if usual else []


def task_text(name: str, draft: Draft, data: Mapping[str, str]) -> str:
    """Return the text of a task file.

    Args:
        name: name of the task.
        draft: its type, fields and labels, with comments.
        data: addresses of the rows by split.
    """
    languages = list(draft.language)
    keys: dict[str, Any] = {"name": name, "description": one_line(draft.description, 300), "type": draft.kind}
    keys["labels"] = list(draft.labels)
    keys["language"] = languages[0] if len(languages) == 1 else languages
    lines = [_line(key, value, "") for key, value in keys.items() if value]
    lines += ["data:", *(_line(split, address, "", 2) for split, address in data.items())]
    lines.append("fields:  # Jinja expressions over one row; each comment names the column")
    lines += [_line(field, source, draft.reasons.get(field, ""), 2) for field, source in draft.fields.items()]
    if draft.cluster:
        lines.append(_line("cluster", draft.cluster, "rows with the same value are not independent"))
    if draft.metrics:
        lines.append(_line("metrics", list(draft.metrics), ""))
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any, comment: str, indent: int = 0) -> str:
    """Return a key with its value on one line, followed by a comment."""
    remark = f"  # {one_line(comment, 160)}" if comment else ""
    return f"{' ' * indent}{key}: {_inline(value)}{remark}"


def _inline(value: Any) -> str:
    """Return a value as YAML on one line."""
    return yaml_text(value, is_inline=True, width=10**9).removesuffix("\n").removesuffix("\n...")
