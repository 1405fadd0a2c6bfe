"""The end of a benchmark's page: its tasks, the published scores, and its files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from textwrap import indent
from typing import Any

from markdown_text import code, escaped, prose, table
from pymdownx.slugs import slugify

from figeval.cli.ls import BUILT_IN, listings
from figeval.data.sources import Sources, catalogue
from figeval.plugins import plugin_manager
from figeval.records.reference import Published, published_results
from figeval.runs.harness import Harness

ROOT = Path(__file__).resolve().parents[2]
SCORES = "docs/results.md"
ANCHOR = slugify(case="lower")  # as mkdocs.yml says
OVERVIEW = "docs/reference/lists/benchmarks.md"
Rows = Sequence[Mapping[str, Any]]


def pages() -> Iterator[tuple[str, str]]:
    """Yield (path, Markdown) of the table of all benchmarks."""
    yield OVERVIEW, "\n\n".join(overview()) + "\n"


def overview() -> Iterator[str]:
    """Yield the blocks of the page on all benchmarks."""
    yield "# All benchmarks"
    yield "A benchmark's page says where its data come from, what is known to be wrong with them, and what models get."
    lines = []
    for folder, tasks in tasks_by_folder().items():
        licences = {sources.licence: None for _, sources in upstream(folder)}
        languages = {language: None for task in tasks for language in spoken(task)}
        title = (ROOT / folder / "README.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(
            (
                f"[{title}](../../../{folder}/README.md)",
                str(len(tasks)),
                code(dict.fromkeys(task["type"] for task in tasks)),
                " ".join(languages),
                prose("; ".join(licences) or "Apache-2.0"),
            )
        )
    yield table(("benchmark", "tasks:", "types", "languages", "licence"), lines)


def facts(path: str) -> str:
    """Return the end of a benchmark's page, or nothing for another page."""
    folder, name = PurePosixPath(path).parent.as_posix(), PurePosixPath(path).name
    if name != "README.md" or folder not in tasks_by_folder():
        return ""
    return "\n\n" + "\n\n".join(blocks(folder)) + "\n"


def blocks(folder: str) -> Iterator[str]:
    """Yield the blocks at the end of a benchmark's page."""
    tasks = tasks_by_folder()[folder]
    yield "## Reference"
    yield "### All tasks"
    yield from map(task_entry, tasks)
    if measured := sections(tasks):
        yield "### Measured scores"
        yield "\n".join(f"* [{title}](../../{SCORES}#{anchor})" for title, anchor in measured)
    scores = {task["name"]: list(published_results(task["name"])) for task in tasks}
    if any(scores.values()):
        yield "### Published scores"
        yield from (folded(code(task), score_table(found)) for task, found in scores.items() if found)
    for benchmark, sources in upstream(folder):
        yield from files(benchmark, sources, folder)


def task_entry(task: Mapping[str, Any]) -> str:
    """Return the entry of a task."""
    name, about = task["name"], escaped(task["description"])
    details = [f"{key} {code(task[key])}" for key in ("type", "splits", "metrics", "baselines", "cluster") if task[key]]
    return f"`{name}`{{ #{name} .option }}\n:   {about}\n\n    {', '.join(details)}"


def files(benchmark: str, sources: Sources, folder: str) -> Iterator[str]:
    """Yield the blocks about a benchmark's files."""
    own = benchmark == PurePosixPath(folder).name
    listing = "sources.yaml" if own else f"{benchmark}.sources.yaml"
    size = sum(file.bytes for file in sources.files) / 1e6
    yield "### Files" if own else f"### Files of `{benchmark}`"
    yield (
        f"`figeval data fetch {benchmark}` fetches {len(sources.files)} files ({size:.1f} MB) and checks their sums, "
        f"as listed in [{listing}]({listing}). Homepage: <{sources.homepage}>. Licence: {prose(sources.licence)}. "
        f"{prose(sources.note)}"
    )
    yield f"> {prose(str(sources.citation))}"
    listed = ((code(file.path), f"{file.bytes:,}") for file in sources.files)
    yield folded("Files", table(("file", "bytes:"), listed))


def sections(tasks: Rows) -> list[tuple[str, str]]:
    """Return (heading, anchor) of the sections that have a table row of one of these tasks."""
    names = {task["name"] for task in tasks}
    parts = re.split(r"^## ", (ROOT / SCORES).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    scored = [part for part in parts if names & set(re.findall(r"^\| (\w+) \|", part, re.MULTILINE))]
    headings = [part.partition("\n")[0] for part in scored]
    return [(heading, ANCHOR(heading, "-")) for heading in headings]


def score_table(scores: Sequence[Published]) -> str:
    """Return the published scores of a task, with a row per model and source and a column per metric."""
    metrics = list(dict.fromkeys(one.metric for one in scores))
    rows: dict[tuple[str, str], dict[str, Published]] = defaultdict(dict)
    for one in scores:
        rows[one.model, one.source][one.metric] = one
    return table(
        ("model", *(f"{code(metric)}:" for metric in metrics), "source", "note"),
        (
            (
                escaped(model),
                *(f"{found[metric].value:g}" if metric in found else "" for metric in metrics),
                escaped(source),
                escaped("; ".join(dict.fromkeys(one.note for one in found.values() if one.note))),
            )
            for (model, source), found in rows.items()
        ),
    )


def folded(title: str, block: str) -> str:
    """Return a block that is shown when its title is clicked."""
    return f'??? note "{title}"\n\n{indent(block, "    ")}'


@cache
def tasks_by_folder() -> Mapping[str, Rows]:
    """Return the tasks of every folder in `tasks/`, as `figeval ls tasks --json` prints them."""
    found = defaultdict(list)
    for row in listings(plugin_manager())["tasks"].rows(Harness()):
        found[row["owner"].removeprefix(BUILT_IN).replace(".", "/")].append(row)
    return dict(found)


def upstream(folder: str) -> list[tuple[str, Sources]]:
    """Return the benchmarks whose files a folder lists, with all that it says of them."""
    owner = BUILT_IN + folder.replace("/", ".")
    return [(entry.name, entry.load()) for entry in catalogue() if entry.owner == owner]


def spoken(task: Mapping[str, Any]) -> list[str]:
    """Return the languages of a task."""
    return [task["language"]] if isinstance(task["language"], str) else list(task["language"])
