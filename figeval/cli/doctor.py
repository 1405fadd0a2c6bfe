"""Command `figeval doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from figeval.cli.shared import echo, echo_json
from figeval.io.text import pluralize

if TYPE_CHECKING:
    from figeval.types import JSON


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def doctor(as_json: bool) -> int:
    """Report versions, devices, caches, data and plugins, and any problems; exit code 1 if there are problems."""
    from figeval.cli.ls import plugins
    from figeval.runs.doctor import checkup
    from figeval.runs.harness import Harness

    facts = checkup(list(plugins(Harness())))
    if as_json:
        echo_json(asdict(facts))
        return 1 if facts.problems else 0
    for name, text in sections(facts.facts):
        echo(f"{name:<12}{text}")
    for hint in facts.hints:
        echo(f"hint: {hint}")
    for problem in facts.problems:
        echo(f"problem: {problem}")
    if facts.problems or facts.hints:
        echo(f"{pluralize(len(facts.problems), 'problem')}, {pluralize(len(facts.hints), 'hint')}")
    else:
        echo("no problems found")
    return 1 if facts.problems else 0


def sections(facts: JSON) -> Iterator[tuple[str, str]]:
    """Yield (section, text of one line)."""
    hardware, cache = facts["hardware"], facts["cache"]
    yield "python", f"{facts['python']} on {facts['platform']}"
    yield "packages", join_values(facts["packages"])
    yield "machine", f"{hardware['machine']}, {hardware['cores']} cores, {hardware['memory_gib']} GiB of memory"
    yield "devices", ", ".join(facts["devices"]) or "none for models on this machine: pip install 'figeval[hf]'"
    yield "cache", f"{cache['home']}, {cache['bytes'] / 1e6:.1f} MB in it, {cache['free'] / 1e9:.1f} GB free"
    yield "mirrors", ", ".join(facts["mirrors"]) or "none (FIGEVAL_DATA_MIRROR)"
    yield "data", ", ".join(f"{name}: {join_values(states)}" for name, states in facts["data"].items())
    yield "extras", ", ".join(f"{name}: {join_values(has) or 'not installed'}" for name, has in facts["extras"].items())
    yield "plugins", ", ".join(row["name"].removeprefix("figeval.builtin.") for row in facts["plugins"])
    yield "environment", " ".join(f"{name}={value}" for name, value in facts["environment"].items()) or "nothing set"


def join_values(values: Mapping[str, object]) -> str:
    """Return names and values as text, e.g. `a 1, b 2`."""
    return ", ".join(f"{name} {value}" for name, value in values.items())
