"""`figeval doctor`: facts about this machine, and a cure for what is wrong."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.processes import figeval


@pytest.fixture(autouse=True)
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices are asked for once, below: importing torch takes seconds."""
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.fixture
def described_as(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes lines of metadata those of an installed distribution."""
    monkeypatch.syspath_prepend(tmp_path / "site")

    def describe(name: str, *lines: str) -> None:
        number = version(name) if name == "figeval" else "99.0"  # that of figeval is remembered
        folder = tmp_path / "site" / f"{name.replace('-', '_')}-{number}.dist-info"
        folder.mkdir(parents=True)
        metadata = ("Metadata-Version: 2.1", f"Name: {name}", f"Version: {number}", *lines, "")
        (folder / "METADATA").write_text("\n".join(metadata), encoding="utf-8")

    return describe


def facts(cli: Cli, code: int = 0) -> dict[str, Any]:
    done = cli("doctor", "--json")
    assert done.code == code, done.out
    installation: dict[str, Any] = json.loads(done.out)
    return installation


def test_a_sound_installation(cli: Cli, own_home: Path) -> None:
    installation = facts(cli)
    assert installation["problems"] == []
    about = installation["facts"]
    assert about["python"] == platform.python_version()
    assert about["packages"]["torch"] == version("torch")
    assert about["requirements"]["click"] == version("click")
    assert about["cache"]["home"] == str(own_home)
    assert about["cache"]["bytes"] == 0
    assert about["environment"]["FIGEVAL_HOME"] == str(own_home)
    assert about["data"]["epic"] == {"missing": 8}
    assert {row["name"] for row in about["plugins"]} >= {"figeval.defaults", "figeval.builtin.tasks.mini"}
    assert "epic: 8 of 8 files missing; `figeval data fetch epic`, or name a mirror" in installation["hints"]


def test_text_ends_with_the_diagnosis(cli: Cli) -> None:
    done = cli("doctor")
    assert done.code == 0
    hints = [line for line in done.out.splitlines() if line.startswith("hint: ")]
    assert any("files missing" in hint for hint in hints)
    assert done.out.splitlines()[-1] == f"0 problems, {len(hints)} hints"
    assert "nothing is" not in done.out, "something is missing"
    assert done.out.startswith("python ")


def test_only_a_machine_with_everything_lacks_nothing(
    cli: Cli, real_data: str, described_as: Callable[..., None]
) -> None:
    described_as("figeval")
    assert cli("doctor").out.splitlines()[-1] == "no problems found"


@pytest.mark.parametrize("extra", ["whole", "part"])
def test_an_extra_is_installed_with_the_packages_of_the_extras_that_it_names(
    extra: str, cli: Cli, described_as: Callable[..., None]
) -> None:
    described_as("figeval", f"Provides-Extra: {extra}", f"Requires-Dist: divider[{extra}]; extra == '{extra}'")
    described_as("divider", f"Provides-Extra: {extra}", f"Requires-Dist: {extra}-words; extra == '{extra}'")
    described_as("whole-words")
    has = {"divider": "99.0", "whole-words": "99.0"} if extra == "whole" else {}
    assert facts(cli)["facts"]["extras"] == {extra: has}


def test_what_the_cache_holds(cli: Cli, own_home: Path) -> None:
    (own_home / "data" / "epic").mkdir(parents=True)
    (own_home / "data" / "epic" / "all_proverbs.json").write_text("wrong")
    installation = facts(cli, code=1)
    assert installation["facts"]["cache"]["bytes"] == 5
    assert installation["facts"]["data"]["epic"] == {"missing": 7, "corrupt": 1}
    (problem,) = installation["problems"]
    assert "all_proverbs.json is corrupt; `figeval data fetch --force epic`" in problem


def test_mirrors(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mirror" / "epic").mkdir(parents=True)
    (tmp_path / "mirror" / "epic" / "full_dataset.json").write_text("wrong")
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", f"{tmp_path / 'mirror'},{tmp_path / 'nowhere'},https://example.org/data")
    installation = facts(cli, code=1)
    assert len(installation["facts"]["mirrors"]) == 3
    gone, corrupt = installation["problems"]
    assert gone == f"the mirror {tmp_path / 'nowhere'} is not a folder; correct FIGEVAL_DATA_MIRROR"
    assert corrupt.endswith("full_dataset.json is corrupt; replace it in that mirror")


def test_a_cache_that_cannot_be_written(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FIGEVAL_HOME", str(tmp_path / "file" / "home"))
    (problem,) = facts(cli, code=1)["problems"]
    assert problem.startswith(f"cannot write to {tmp_path / 'file' / 'home'}; set FIGEVAL_HOME")


def test_packages_that_are_missing_or_too_old(cli: Cli, described_as: Callable[..., None]) -> None:
    requirements = [
        "click>=8.2",
        "numpy>=99",
        "no-such-thing>=1",
        "other; extra == 'huge'",
        "colorama; sys_platform == 'x'",
    ]
    described_as("figeval", *(f"Requires-Dist: {requirement}" for requirement in requirements))
    installation = facts(cli, code=1)
    assert installation["problems"] == [
        f"numpy {version('numpy')} is installed, figeval needs >=99; `pip install 'numpy>=99'`",
        "no-such-thing is not installed, figeval needs >=1; `pip install 'no-such-thing>=1'`",
    ]
    assert installation["facts"]["requirements"] == {
        "click": version("click"),
        "numpy": version("numpy"),
        "no-such-thing": None,
    }


def test_an_extra_that_is_not_installed_is_a_hint(cli: Cli, described_as: Callable[..., None]) -> None:
    described_as(
        "figeval",
        *("Provides-Extra: small", "Requires-Dist: acme-weights; extra == 'small'"),
        *("Provides-Extra: huge", "Requires-Dist: no-such-thing; extra == 'huge'"),
        *("Provides-Extra: both", "Requires-Dist: figeval[small,huge]; extra == 'both'"),
        *("Provides-Extra: same", "Requires-Dist: figeval[small]; extra == 'same'"),
    )
    described_as("acme-weights")
    installation = facts(cli)
    weights = {"acme-weights": "99.0"}
    assert installation["facts"]["extras"] == {"small": weights, "huge": {}, "both": {}, "same": weights}
    (hint,) = [hint for hint in installation["hints"] if "figeval[" in hint]
    assert "huge, both;" in hint


@pytest.mark.slow
def test_plugins_and_devices_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "bad_plugin.py").write_text("raise ImportError('no libacme here')\n")
    done = figeval("doctor", cwd=tmp_path, code=1, PYTHONPATH=str(tmp_path), FIGEVAL_PLUGINS="bad_plugin")
    assert "problem: plugin bad_plugin: not loaded: ImportError: no libacme here" in done.stdout
    (devices,) = [line for line in done.stdout.splitlines() if line.startswith("devices ")]
    assert devices.endswith("cpu")
