"""Pages of the Python API: a page for each section of docs/reference/api.md, with what every name of it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PAGE = "docs/reference/api.md"
ROOT = Path(__file__).resolve().parents[2]
SECTION = re.compile(r"^## (?P<title>.+)\n(?P<text>(?:(?!## ).*\n)*)", re.MULTILINE)
NAMES = re.compile(r"^\* \*\*(?P<heading>.+?)\*\*: (?P<names>.+)$", re.MULTILINE)
MODULES = ("hooks", "testing", "testing.fakes")  # they stand for all names in them
HOOK = re.compile(r"^@hookspec.*\ndef (\w+)", re.MULTILINE)


def pages() -> Iterator[tuple[str, str]]:
    """Yield (path, Markdown) of every page."""
    for section in SECTION.finditer((ROOT / PAGE).read_text(encoding="utf-8")):
        text = NAMES.sub(lambda line: f"## {line['heading']}\n\n{directives(line['names'])}", section["text"])
        name = section["title"].lower().replace(" ", "_")
        yield f"docs/reference/api/{name}.md", f"# {section['title']}\n{text.replace('](../', '](../../')}"


def directives(names: str) -> str:
    """Return what mkdocstrings replaces with the descriptions of these names."""
    return "\n\n".join(directive(name) for name in re.findall("`(.+?)`", names)) + "\n"


def directive(name: str) -> str:
    """Return what mkdocstrings replaces with the description of a name, or of all names in a module."""
    if name not in MODULES:
        return f"::: figeval.{name}"
    options = ["show_root_heading: false", "show_root_toc_entry: false"]
    if name == "hooks":
        hooks = HOOK.findall((ROOT / "figeval" / "hooks.py").read_text(encoding="utf-8"))
        options.append(f"members: [{', '.join(hooks)}]")
    return "\n".join([f"::: figeval.{name}", "    options:", *(f"      {option}" for option in options)])


def linked(text: str) -> str:
    """Return the page of all names with a link from each to its description."""
    names = NAMES.sub(lambda line: re.sub("`(?!hooks|testing)(.+?)`", r"[`\1`][figeval.\1]", line[0]), text)
    titles = [section["title"] for section in SECTION.finditer(text)]
    for title in titles:
        names = names.replace(f"## {title}\n", f"## [{title}](api/{title.lower().replace(' ', '_')}.md)\n")
    return names
