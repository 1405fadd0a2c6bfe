"""`sources.yaml`: found by rule, checked key by key."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from figeval import DataError, plugins
from figeval.data.sources import Sources, load_catalogue
from figeval.io.yaml_files import read_yaml

SOUND_SOURCES = f"""
licence: CC0
homepage: https://example.org
citation: nobody (2024)
files:
  - path: a/b.txt
    url: https://example.org/{"0" * 40}/b.txt
    sha256: {"a" * 64}
    bytes: 12
"""


def write_sources(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "sources.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_good_file_is_read(tmp_path: Path) -> None:
    sources = read_yaml(write_sources(tmp_path, SOUND_SOURCES), Sources, DataError)
    assert sources.files[0].path == "a/b.txt"
    assert sources.files[0].member is None


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("licence:", "license:", r"unknown key 'license'; did you mean 'licence'"),
        ("homepage:", "licence_url: x\nhomepage:", r"unknown key 'licence_url'; did you mean 'licence'"),
        ("    bytes:", "    sha: 1\n    bytes:", r"unknown key 'files\.0\.sha'; did you mean 'sha256'"),
        ("a" * 64, "a" * 63, r"files\.0\.sha256: "),
        ("bytes: 12", "bytes: 0", r"files\.0\.bytes must be greater than 0"),
        ("path: a/b.txt", "path: ../b.txt", r"files\.0\.path: '\.\./b\.txt' must be a relative path"),
        ("path: a/b.txt", "path: /b.txt", r"files\.0\.path: '/b\.txt' must be a relative path"),
        ("url: https", "url: ftp", r"files\.0\.url: "),
        ("citation: nobody (2024)\n", "", "citation is missing"),
        (SOUND_SOURCES.partition("files:")[2], " []", "files: .* at least 1 item"),
        (SOUND_SOURCES, "- a list", "must be a mapping"),
        (SOUND_SOURCES, "a: [", "not valid YAML"),
        ("    bytes: 12\n", "    bytes: 12\n" + SOUND_SOURCES.partition("files:\n")[2], "'a/b.txt' is listed twice"),
    ],
)
def test_every_mistake_is_one_line_with_file_and_key(tmp_path: Path, before: str, after: str, message: str) -> None:
    file = write_sources(tmp_path, SOUND_SOURCES.replace(before, after))
    with pytest.raises(DataError, match=message) as error:
        read_yaml(file, Sources, DataError)
    assert str(error.value).startswith(f"{file}:")
    assert "\n" not in str(error.value)


def package(tmp_path: Path, name: str, **files: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text('"""A third party\'s plugin."""\n')
    (folder / "plugin.py").write_text('"""Its plugin module, beside its sources."""\n')
    for key, text in files.items():
        (folder / key.replace("__", ".")).write_text(text)


def load_plugins(*modules: str) -> plugins.PluginManager:
    return plugins.load(modules)


def test_packages_of_plugins_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    package(tmp_path, "acme_one", sources__yaml=SOUND_SOURCES, vectors__sources__yaml=SOUND_SOURCES)
    package(tmp_path, "acme_two", sources__yaml=SOUND_SOURCES)
    manager = load_plugins("acme_one", "acme_one.plugin", "acme_two.plugin")
    assert [(entry.name, entry.owner) for entry in load_catalogue(manager)] == [
        ("acme_one", "acme_one"),
        ("vectors", "acme_one"),
        ("acme_two", "acme_two"),
    ]
    assert not any(plugin.problems for plugin in manager.plugins.values())


def test_a_broken_or_doubled_file_is_a_problem_of_its_plugin_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    package(tmp_path, "acme_good", shared__sources__yaml=SOUND_SOURCES)
    package(tmp_path, "acme_taker", shared__sources__yaml=SOUND_SOURCES, own__sources__yaml=SOUND_SOURCES)
    package(tmp_path, "acme_broken", sources__yaml="licence: [", fine__sources__yaml=SOUND_SOURCES)
    manager = load_plugins("acme_good", "acme_taker", "acme_broken")
    assert [entry.name for entry in load_catalogue(manager)] == ["shared", "own", "fine"]
    assert "'shared' of acme_taker is already registered by acme_good" in manager.plugins["acme_taker"].problems[0]
    assert "not valid YAML" in manager.plugins["acme_broken"].problems[0]
    assert manager.plugins["acme_good"].problems == []
    assert capsys.readouterr().err.count("warning") == 2


def test_a_plugin_without_a_package_has_no_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "acme_lonely.py").write_text('"""One file."""\n')
    (tmp_path / "sources.yaml").write_text(SOUND_SOURCES)
    assert len(load_catalogue(load_plugins("acme_lonely"))) == 0


def test_built_in_sources_are_pinned_to_a_commit() -> None:
    catalogue = load_catalogue(plugins.plugin_manager())
    assert {"epic", "impli", "glove"} <= {entry.name for entry in catalogue}
    pinned = re.compile(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/.+")
    for name in ("epic", "impli", "glove"):
        sources = catalogue.get(name)
        assert all(pinned.fullmatch(source.url) for source in sources.files)
        assert sources.licence and sources.citation
    assert [len(catalogue.get(name).files) for name in ("epic", "impli", "glove")] == [8, 16, 1]


def test_looking_for_sources_imports_no_http_client() -> None:
    import subprocess

    program = (
        "import sys; from figeval.data.sources import catalogue; assert len(catalogue()) >= 3; "
        "import figeval.data.cache; assert not {'httpx', 'rich', 'torch', 'numpy'} & set(sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
