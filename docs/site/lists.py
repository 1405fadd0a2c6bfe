"""Pages of the reference that are made from what plugins have registered: tasks, models and their options, metrics …

They show the built-in plugins; `figeval ls` also shows those that are installed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import benchmark_pages
from markdown_text import code, escaped, prose, table

from figeval.cli.ls import listings
from figeval.models.model import Backends
from figeval.models.options import model_options
from figeval.runs.harness import Harness
from figeval.spec.schema import suite_schema, task_schema

FOLDER = "docs/reference/lists"
SEVERAL = 5  # an option that more models share is explained once


def pages() -> Iterator[tuple[str, str]]:
    """Yield (path, Markdown) of every list."""
    harness = Harness()
    for page in (tasks, types, task_keys, metrics, models, training):
        yield f"{FOLDER}/{page.__name__}.md", "\n\n".join(page(harness)) + "\n"


def rows(kind: str, harness: Harness) -> list[Mapping[str, Any]]:
    """Return what `figeval ls KIND --json` prints."""
    return list(listings(harness.manager)[kind].rows(harness))


def tasks(harness: Harness) -> Iterator[str]:
    """Yield the blocks of the page on suites and tasks: a section per benchmark."""
    yield "# Suites and tasks"
    yield (
        "For `figeval run --tasks`. A suite is several tasks under one name. `figeval show NAME` prints what is known "
        "of one of them."
    )
    yield "## Suites"
    yield table(("suite", ""), ((code(row["name"]), escaped(row["description"])) for row in rows("suites", harness)))
    for folder, found in benchmark_pages.tasks_by_folder().items():
        name = folder.rpartition("/")[2]
        yield f"## {name}"
        yield table(
            ("task", "type", "languages", ""),
            (
                (
                    f"[`{row['name']}`](../../../{folder}/README.md#{row['name']})",
                    code(row["type"]),
                    " ".join(benchmark_pages.spoken(row)),
                    escaped(row["description"]),
                )
                for row in found
            ),
        )


def models(harness: Harness) -> Iterator[str]:
    """Yield the blocks of the page on models: a section per name, with its options."""
    opened = {entry.name: (entry.summary, option_items(entry.load())) for entry in Backends(harness.manager).registry}
    counts = Counter(option for _, found in opened.values() for option in found)
    shared = [option for option in counts if counts[option] > SEVERAL]
    yield "# Models"
    yield (
        "Names for `--model`, each with its options for `--model_args`. A folder or a hub id can be given alone; its "
        "`config.json` says which of these serves it. `NAME:MODEL` chooses one, as in `encoder:roberta-base`."
    )
    for name, (summary, found) in opened.items():
        yield f"## `{name}`"
        yield prose(f"{summary[:1].upper()}{summary[1:]}.")
        yield from (option for option in found if option not in shared)
        if set(shared) <= set(found):
            yield "It also has the [common options](#common-options)."
        else:
            yield from (option for option in found if option in shared)
    yield "## Common options"
    yield from shared


def option_items(factory: Callable[..., Any]) -> list[str]:
    """Return the options of a model as items of a list of definitions."""
    items = []
    for option in model_options(factory):
        if option.name.startswith("**"):
            items.append("All other options are those of the model's class.")
            continue
        kind = f": {option.type}" if option.type else ""
        default = "" if option.default in (None, "") else f" By default `{option.default!r}`."
        text = prose(option.help[:1].upper() + option.help[1:])
        items.append(f"`{option.name}{kind}`{{ .option }}\n:   {text}{default}")
    return items


def types(harness: Harness) -> Iterator[str]:
    """Yield the blocks of the page on task types: a section per type, with its fields, metrics and routes."""
    yield "# Task types and routes"
    yield (
        "For `type:` in a task file and for `--route`. A route is preferred to those below it, and taken if the model "
        "has all [capabilities](../api/capabilities.md) that it needs. See [Task types](../../task_types.md), and "
        "[what the fields mean](task_keys.md#fields)."
    )
    routes = rows("routes", harness)
    for row in rows("types", harness):
        yield f"## `{row['name']}`"
        yield prose(row["description"])
        yield f"**Fields.** {code(row['fields'])}"
        yield f"**Metrics.** {code(row['metrics'])}"
        answers = ((code(one["name"]), code(one["needs"])) for one in routes if one["type"] == row["name"])
        yield table(("route", "needs"), answers)


def task_keys(harness: Harness) -> Iterator[str]:
    """Yield the blocks of the page on the keys of task files and suite files, and of the fields of each type."""
    types = [kind for _, kind in harness.task_types.usable(harness.manager)]
    yield "# Keys of task files"
    yield (
        "All keys of `*.task.yaml` and `*.suite.yaml`, explained with examples in [plugins](../../plugins.md). "
        "`figeval schema task` prints them as a JSON Schema, with which editors complete and check them."
    )
    yield "## Task files"
    yield keys_table(task_schema(types))
    yield "## Suite files"
    yield keys_table(suite_schema())
    yield "## Fields"
    yield (
        "For `fields:` in a task file. Every example also has an `id`, and may have `meta` and `language`. A value is "
        "a Jinja expression over one `row`, or a list or mapping of expressions."
    )
    for kind in types:
        schema = kind.json_schema()
        yield f"### `{kind.name}`"
        yield table(
            ("field", "required", ""),
            (
                (code(name), "yes" if name in schema["required"] else "", prose(one["description"]))
                for name, one in schema["properties"].items()
                if name not in ("id", "meta", "language")
            ),
        )


def keys_table(schema: Mapping[str, Any]) -> str:
    """Return a table of the keys of a file by its JSON Schema, with the keys of a mapping below its own."""
    checked = schema["allOf"][0]["else"]
    required, values = checked["required"], checked["properties"]
    found = []
    for key, about in schema["properties"].items():
        one = {**values.get(key, {"type": "string"}), **about}
        found.append((key, one, key in required))
        inner = one if "properties" in one else one.get("additionalProperties", {})
        prefix = key if inner is one else f"{key}.NAME"
        needed = inner.get("required", [])
        found += [(f"{prefix}.{name}", part, name in needed) for name, part in inner.get("properties", {}).items()]
    return table(
        ("key", "value", "default", ""),
        (
            (
                code(key),
                kind_of_value(one),
                "required" if is_required else code(json.dumps(one["default"]).strip('"') if "default" in one else ""),
                prose(one["description"]),
            )
            for key, one, is_required in found
        ),
    )


def kind_of_value(schema: Mapping[str, Any]) -> str:
    """Return the types that a JSON Schema accepts as words; null means that there is no such key."""
    if "enum" in schema:
        return "string"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(filter(None, map(kind_of_value, schema["anyOf"]))))
    types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    words = {"object": "mapping", "array": "list of strings", "boolean": "true or false"}
    return " or ".join(words.get(one, one) for one in types if one != "null")


def metrics(harness: Harness) -> Iterator[str]:
    """Yield the blocks of the page on metrics."""
    yield "# Metrics"
    yield "For `metrics:` in a task file and for `--metrics`. One with an argument is asked for as `NAME=ARGUMENT`."
    yield table(
        ("metric", "task types", "routes", "better", "argument"),
        (
            (
                code(row["name"]),
                code(row["types"]) or "all",
                code(row["routes"]) or "all",
                "higher" if row["higher_is_better"] else "lower",
                prose(row["argument"]),
            )
            for row in rows("metrics", harness)
        ),
    )


def training(harness: Harness) -> Iterator[str]:
    """Yield the blocks of the page on what can be trained."""
    yield "# Heads and presets"
    yield "For `figeval train`. See [Training](../../training.md)."
    yield "## Heads"
    yield "For `--head`. The first head of a task type is its default."
    yield table(
        ("task type", "head", ""),
        ((code(row["type"]), code(row["name"]), prose(row["summary"])) for row in rows("heads", harness)),
    )
    yield "## Presets"
    yield "For `--preset`: the hyper-parameters of a published result."
    yield table(
        ("preset", "model", "tasks", "hyper-parameters"),
        (
            (code(row["name"]), escaped(row["model"]), code(row["tasks"]), escaped(str(row["hyper-parameters"])))
            for row in rows("presets", harness)
        ),
    )
