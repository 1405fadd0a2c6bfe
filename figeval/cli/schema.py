"""Command `figeval schema`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from figeval.cli.shared import echo_json_text

if TYPE_CHECKING:
    from figeval.types import JSON

KINDS = ("task", "suite", "run", "predictions")


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
def schema(kind: str) -> None:
    """Print the JSON Schema of task files, suite files, run.json or a line of predictions.

    With the schema of task or suite files, an editor completes and checks their keys. That of task files includes the
    types of installed plugins. A file names its schema in its first line:
    # yaml-language-server: $schema=task.schema.json

    \b
    figeval schema task > task.schema.json
    figeval schema suite > suite.schema.json
    """
    echo_json_text(schema_text(kind))


def schema_text(kind: str) -> str:
    """Return the JSON Schema of one of `KINDS`; that of task files has the task types of all plugins."""
    return json.dumps(_schema(kind), indent=2, ensure_ascii=False)


def _schema(kind: str) -> JSON:
    from figeval.records.schema import json_schemas
    from figeval.runs.harness import Harness
    from figeval.spec.schema import suite_schema, task_schema

    if kind == "task":
        harness = Harness()
        return task_schema(task_type for _, task_type in harness.task_types.usable(harness.manager))
    return suite_schema() if kind == "suite" else json_schemas()[kind]
