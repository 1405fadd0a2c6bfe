"""MkDocs hooks that make the site out of the repository: its pages where they lie, what they link to, the reference.

Every page has the path that it has in the repository, so that one and the same link works in the site and where the
code is hosted. `docs/` is left out of addresses: `docs/llm.md` becomes `llm.html`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import api_pages
import benchmark_pages
import command_line
import lists
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("*.md", "docs/**/*.md", "tasks/**/*.md", "results/**/*.md", "tests/third_party/*/*.md", "bench/*.md")

# Functions that yield (path of a page in the repository, its Markdown). Such a page needs no file; those of a folder
# come in this order wherever the navigation names the folder.
GENERATORS: tuple[Callable[[], Iterator[tuple[str, str]]], ...] = (
    api_pages.pages,
    benchmark_pages.pages,
    command_line.pages,
    lists.pages,
)

LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")
FILE = re.compile(r"^<!-- file: (?P<name>.+?) -->\n(?P<fence>```\w+)$", re.MULTILINE)
ROW = re.compile(r"^\|.*$", re.MULTILINE)
INTERVAL = re.compile(r"(\[[−.\d]+,) (?=[−.\d]+\])")
LEXERS = {".py": "python", ".yaml": "yaml", ".json": "json"}


class SourceFile(File):
    """A file of code as a page, in the place of the file itself: a link to the file is a link to the page."""

    def is_documentation_page(self) -> bool:
        """Let MkDocs render it."""
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository, the generated ones, and the code that pages link to."""
    generated = dict(page for pages in GENERATORS for page in pages())
    lying = {path: written_page(path) for path in sorted(repository_pages())}
    texts = {**generated, **lying}
    for path, text in texts.items():
        files.append(page_file(config, path, text))
    for path in sorted({target for page, text in texts.items() for target in linked_files(page, text)} - set(texts)):
        files.append(source_file(config, path))
    config.nav = [in_nav(entry, list(texts)) for entry in config.nav or []]
    for path in titled(config.nav):
        if (file := files.get_file_from_path(path)) is not None:
            file.name = Path(path).stem  # a README with a title is a page as others are, not the index of its section
    return files


def repository_pages() -> set[str]:
    """Return the paths of all pages that people have written."""
    return {file.relative_to(ROOT).as_posix() for pattern in PAGES for file in ROOT.glob(pattern)}


def written_page(path: str) -> str:
    """Return a page that people have written, with the names of its files above them; a benchmark's has facts below.

    Intervals in tables are kept on one line.
    """
    text = (ROOT / path).read_text(encoding="utf-8")
    if path == api_pages.PAGE:
        text = api_pages.linked(text)
    titled = FILE.sub(lambda found: f'{found["fence"]} title="{found["name"]}"', text)
    unbroken = ROW.sub(lambda found: INTERVAL.sub("\\1\N{NO-BREAK SPACE}", found[0]), titled)
    return unbroken + benchmark_pages.facts(path)


def linked_files(page: str, text: str) -> Iterator[str]:
    """Yield the paths of the files in the repository that a page links to."""
    for target in LINK.findall(text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if not path.startswith("..") and (ROOT / path).is_file():
            yield path


def page_file(config: MkDocsConfig, path: str, text: str) -> File:
    """Return a page under its path in the repository, at an address without `docs/`."""
    file = File.generated(config, path, content=text)
    file.dest_uri = file.dest_uri.removeprefix("docs/")
    file.edit_uri = path
    return file


def source_file(config: MkDocsConfig, path: str) -> File:
    """Return the page that shows a file of code; search leaves it out."""
    text = (ROOT / path).read_text(encoding="utf-8")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    lexer = LEXERS.get(Path(path).suffix, "text")
    code = f"{fence}{{.{lexer} linenums=1}}\n{text}\n{fence}"
    page = f"---\nsearch: {{exclude: true}}\nhide: [navigation, toc]\n---\n\n# `{path}`\n\n{code}\n"
    file = SourceFile.generated(config, path, content=page, inclusion=InclusionLevel.NOT_IN_NAV)
    file.dest_uri = f"source/{path}.html"
    return file


def in_nav(entry: Any, pages: list[str]) -> Any:
    """Return an entry of the navigation with the pages of a folder in place of its path, which ends with a slash."""
    if isinstance(entry, Mapping):
        return {title: in_nav(value, pages) for title, value in entry.items()}
    if isinstance(entry, list):
        parts = [in_nav(value, pages) for value in entry]
        return [page for part in parts for page in (part if isinstance(part, list) else [part])]
    if isinstance(entry, str) and entry.endswith("/"):
        return [path for path in pages if path.startswith(entry)]
    return entry


def titled(entry: Any) -> Iterator[str]:
    """Yield the pages that have a title in the navigation."""
    if isinstance(entry, Mapping):
        yield from (value for value in entry.values() if isinstance(value, str))
    if isinstance(entry, Mapping | list):
        for value in entry.values() if isinstance(entry, Mapping) else entry:
            yield from titled(value)
