"""The documentation site builds without a warning, needs no network, and has all that it promises to list."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import figeval
import figeval.testing
from tests.cli.conftest import Cli, listed_commands

ROOT = Path(__file__).resolve().parent.parent
ADDRESS_OF_TAG = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}  # tag → attribute
RELATIONS = {"canonical", "next", "prev", "edit"}  # links in a page's head that browsers do not load

pytestmark = pytest.mark.slow
pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built as `make docs` builds it: a dead link, a dead anchor or a page without a place in
    the navigation is an error.
    """
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    with warnings.catch_warnings(action="ignore"):  # of libraries that Material imports, jieba for one
        config = load_config(str(ROOT / "docs" / "site" / "mkdocs.yml"), site_dir=str(folder))
        assert config.strict
        build(config)
    return folder


class Fetched(HTMLParser):
    """Collects what a browser loads together with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ADDRESS_OF_TAG and values.get("rel") not in RELATIONS:
            self.found.append(values.get(ADDRESS_OF_TAG[tag]) or "")


def collect_links(page: Path) -> list[str]:
    parser = Fetched()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser.found


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        elsewhere = [address for address in collect_links(page) if urlsplit(address).scheme not in ("", "data")]
        assert not elsewhere, page.relative_to(site)
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\(['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style.name


def helps(cli: Cli, *words: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the words and the `--help` of every command that has no commands itself."""
    text = cli(*words, "--help").out
    names = listed_commands(text)
    for name in names:
        yield from helps(cli, *words, name)
    if not names:
        yield words, cli(*words, "--help-all").out if "--help-all" in text else text


def test_every_option_of_every_command_is_listed(site: Path, cli: Cli) -> None:
    """The pages are made from the objects of commands; here they are compared with what a user sees."""
    number_of_options = {}
    for words, text in helps(cli):
        page = (site / "reference" / "command_line" / f"{words[0]}.html").read_text(encoding="utf-8")
        assert f"figeval {' '.join(words)}" in page
        options = set(re.findall(r"^  (?:-\w, )*(--[\w-]+)", text if "\nOptions:\n" in text else "", re.MULTILINE))
        assert not [option for option in options if option not in page], words
        number_of_options[words] = len(options)
    assert len(number_of_options) > 30 and number_of_options["run",] > 30


def test_every_environment_variable_is_listed(site: Path) -> None:
    files = [file for room in ("figeval", "plugins", "tasks") for file in (ROOT / room).rglob("*.py")]
    read = {name for file in files for name in re.findall(r"FIGEVAL_[A-Z_]+", file.read_text(encoding="utf-8"))}
    page = (site / "reference" / "environment.html").read_text(encoding="utf-8")
    assert set(re.findall(r"<td><code>(FIGEVAL_[A-Z_]+)</code></td>", page)) == read


HOOKS = re.findall(r"^@hookspec.*\ndef (\w+)", (ROOT / "figeval/hooks.py").read_text("utf-8"), flags=re.MULTILINE)
PUBLIC_NAMES = [
    *(f"figeval.{name}" for name in figeval.__all__),
    *(f"figeval.testing.{name}" for name in figeval.testing.__all__),
    *(f"figeval.hooks.{name}" for name in sorted(HOOKS)),
]


def test_every_public_name_is_in_the_reference_once(site: Path) -> None:
    texts = [page.read_text(encoding="utf-8") for page in (site / "reference" / "api").glob("*.html")]
    anchors = [name for text in texts for name in re.findall(r'<h\d id="([\w.]+)"', text)]
    assert {name: anchors.count(name) for name in PUBLIC_NAMES} == dict.fromkeys(PUBLIC_NAMES, 1)


def test_every_public_name_is_documented() -> None:
    import griffe

    package = griffe.load("figeval", search_paths=[ROOT])
    names = [package[name] for name in figeval.__all__]
    assert not [
        name.path for name in names if not (name.final_target if isinstance(name, griffe.Alias) else name).docstring
    ]


def test_every_benchmark_has_its_tasks_licences_and_files_on_its_page(site: Path) -> None:
    for readme in ROOT.glob("tasks/*/README.md"):
        page = (site / "tasks" / readme.parent.name / "index.html").read_text(encoding="utf-8")
        assert 'id="all-tasks"' in page
        for listed in readme.parent.glob("*sources.yaml"):
            citation = re.search(r"https://aclanthology\.org/\S+?(?=[.\"]?$)", listed.read_text(encoding="utf-8"), re.M)
            assert citation is None or citation[0] in page, readme.parent.name
            assert f"source/{listed.relative_to(ROOT).as_posix()}.html" in page


def test_every_option_of_a_model_is_explained(site: Path) -> None:
    page = (site / "reference" / "lists" / "models.html").read_text(encoding="utf-8")
    options = re.findall(r'<dt><code class="option">(.+?)</code></dt>\s*<dd>(.*?)</dd>', page, flags=re.DOTALL)
    assert len(options) > 30
    assert not [name for name, text in options if not text.strip() or text.strip().startswith("By default")]
