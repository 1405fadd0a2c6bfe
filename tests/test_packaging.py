"""The wheel holds all that figeval needs and nothing else, and works without the checkout; so does the sdist."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from itertools import pairwise
from pathlib import Path, PurePosixPath

import pytest
import yaml
from packaging.version import Version

from tests.processes import figeval

ROOT = Path(__file__).resolve().parent.parent
WORD = re.compile(r"\w+")
ROOMS = ("tasks", "templates", "plugins", "results")


def build(source: Path, target: str, folder: Path) -> Path:
    """The distribution that `python -m build` makes of a source tree."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{target}", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (archive,) = folder.iterdir()
    return archive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def contents(wheel: Path) -> dict[str, bytes]:
    """The files of the wheel, without the metadata beside the package."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel is installed, to be put on PYTHONPATH."""
    return install_wheel(wheel, tmp_path_factory.mktemp("site"))


def install_wheel(wheel: Path, target: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True)
    return target


@pytest.mark.slow
def test_the_command_lies_in_bin(site: Path) -> None:
    assert (site / "bin" / "figeval").is_file()


# ---- which version it is --------------------------------------------------------------------------------------------


def test_the_version_is_the_same_wherever_it_is_written() -> None:
    """Between releases the version is the coming one: above the newest in the changelog, and without a date."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == version

    newest, *older = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    dated = [re.fullmatch(r"(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)", heading) for heading in older]
    assert all(dated), "headings are '## X.Y.Z (YYYY-MM-DD)'"
    released = [Version(match[1]) for match in dated if match]
    assert released == sorted(set(released), reverse=True)
    assert all(Version(version) > earlier for earlier in released)
    date = f" ({citation['date-released']})" if "date-released" in citation else None
    assert newest == (f"{version}{date}" if date else "Unreleased")


# ---- what is inside -------------------------------------------------------------------------------------------------


def tracked_files(*folders: str) -> set[str]:
    """What the repository holds below some folders, and what is about to be added to it."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name for name in listed if (ROOT / name).is_file()}


def test_everything_of_the_package_and_the_four_rooms_is_inside_and_nothing_else(contents: dict[str, bytes]) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no repository to compare with")
    core = tracked_files("figeval")
    left_out = ("results/README.md", "results/measured/")  # predictions are for the checkout
    rooms = {f"figeval/builtin/{name}" for name in tracked_files(*ROOMS) if not name.startswith(left_out)}
    assert set(contents) == core | rooms


@pytest.mark.parametrize(
    "name",
    [
        *("figeval/py.typed", "figeval/cli/main.py", "figeval/builtin/__init__.py"),
        *("figeval/builtin/tasks/mini/mini.suite.yaml", "figeval/builtin/tasks/mini/narratives.jsonl"),
        *("figeval/builtin/tasks/epic/sources.yaml", "figeval/builtin/tasks/epic/mcq_items.jsonl"),
        *("figeval/builtin/templates/_default/choice.jinja", "figeval/wings/exporters/latex.py"),
        *("figeval/builtin/results/reference/epic.json", "figeval/builtin/results/schema/run.schema.json"),
    ],
)
def test_what_must_not_be_missing(name: str, contents: dict[str, bytes]) -> None:
    assert contents[name] or name.endswith("py.typed")


def test_what_has_no_place_in_a_wheel(wheel: Path, contents: dict[str, bytes]) -> None:
    tops = {PurePosixPath(name).parts[0] for name in contents}
    assert tops == {"figeval"}
    strays = [name for name in contents if {"tests", "bench", ".ci", "__pycache__"} & {*PurePosixPath(name).parts}]
    scaffold = ("figeval/cli/scaffold/",)
    assert not [name for name in strays if not name.startswith(scaffold)]
    assert not [name for name in contents if name.startswith("figeval/builtin/results/runs")]
    assert not [name for name in contents if name.endswith((".pyc", ".orig", ".part", ".lock"))]
    assert max(map(len, contents.values())) < 1_000_000
    assert wheel.stat().st_size < 5_000_000


def test_no_upstream_file_is_inside(contents: dict[str, bytes]) -> None:
    described = [yaml.safe_load(content) for name, content in contents.items() if name.endswith("sources.yaml")]
    listed = [file for sources in described for file in sources["files"]]
    assert len(listed) > 20
    sums = {hashlib.sha256(content).hexdigest() for content in contents.values()}
    assert not sums & {file["sha256"] for file in listed}
    names = {PurePosixPath(file["path"]).name for file in listed}
    assert not [name for name in contents if PurePosixPath(name).name in names]


@pytest.mark.slow
def test_no_sentence_of_the_benchmarks_is_inside(contents: dict[str, bytes], real_data: str) -> None:
    from figeval import Harness

    harness = Harness()
    text = b"\n".join(contents.values()).decode("utf-8", "ignore").lower()
    pairs = {*pairwise(WORD.findall(text))}  # a sentence with a pair of words that is not among them is not in the text
    for name in ("epic_retrieval_all", "impli_idioms_gold_ent", "impli_metaphors_silver_ent"):
        for example in harness.examples(harness.catalogue.tasks.get(name)):
            sentence = example.texts[0].lower().strip()
            whole_words = WORD.findall(sentence)[1:-1]  # the first and the last may be parts of longer ones
            if len(sentence) >= 30 and pairs.issuperset(pairwise(whole_words)):
                assert sentence not in text, f"{example.id} of {name} is in the wheel"


# ---- how it works ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_works_without_the_checkout(site: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import figeval, figeval.builtin as b; print(figeval.__file__, *b.__path__)"]
    environment = {"PYTHONPATH": str(site), "FIGEVAL_PLUGINS": ""}
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert all(path.startswith(str(site)) for path in done.stdout.split()), done.stdout

    assert "mini_pairs" in figeval("ls", "tasks", cwd=tmp_path, **environment).stdout
    problems = json.loads(figeval("ls", "plugins", "--json", cwd=tmp_path, **environment).stdout)
    assert not [row for row in problems if row["problems"]]
    ran = figeval("run", "--tasks", "mini", "--model", "tfidf", "--output_path", "run", cwd=tmp_path, **environment)
    assert "mini_fables" in ran.stdout
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["status"] == "complete"
    assert record["provenance"]["git"] is None, "an installed package has no commit"
    assert figeval("export", "run", "--to", "markdown", cwd=tmp_path, **environment).stdout.startswith("| task |")
    assert "Sentence-BERT" in figeval("show", "epic_retrieval_all", cwd=tmp_path, **environment).stdout
    figeval("new", "task", "a_task", cwd=tmp_path, **environment)


@pytest.mark.slow
def test_it_gives_the_same_numbers_as_the_checkout(site: Path, tmp_path: Path) -> None:
    command = ("run", "--tasks", "mini", "--model", "tfidf", "--no_baselines", "--output_path")
    figeval(*command, "installed", cwd=tmp_path, PYTHONPATH=str(site))
    figeval(*command, "checkout", cwd=tmp_path)
    installed, other = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("installed", "checkout"))
    for task, same in zip(installed["tasks"], other["tasks"], strict=True):
        keys = ("scores", "examples_sha256", "template_sha256", "route")
        assert [task[key] for key in keys] == [same[key] for key in keys]


@pytest.mark.slow
def test_the_console_script_is_installed(site: Path, tmp_path: Path) -> None:
    script = site / "bin" / "figeval"
    done = subprocess.run(
        [script, "--version"], cwd=tmp_path, env={"PYTHONPATH": str(site)}, capture_output=True, text=True
    )
    assert done.stdout.startswith("figeval ")


@pytest.mark.slow
def test_the_sdist_is_enough_to_build_the_same_wheel(contents: dict[str, bytes], tmp_path: Path) -> None:
    folder = tmp_path / "sdist"
    folder.mkdir()
    with tarfile.open(build(ROOT, "sdist", folder)) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert (source / "LICENSE").is_file()
    assert not {"tests", "bench", ".ci"} & {file.name for file in source.iterdir()}
    assert {file.name for file in (source / "results").iterdir()} >= {"reference", "schema"}
    assert not (source / "results/runs").exists()
    again = tmp_path / "wheel"
    again.mkdir()
    with zipfile.ZipFile(build(source, "wheel", again)) as archive:
        rebuilt = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    assert rebuilt == contents
