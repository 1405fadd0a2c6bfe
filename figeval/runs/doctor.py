"""Diagnosis of figeval's environment on this machine: packages, devices, caches, data, plugins, and their problems."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires
from shutil import disk_usage

from figeval.data import cache
from figeval.data.sources import data_files
from figeval.io.files import expand_user, home
from figeval.records import provenance
from figeval.types import JSON

VARIABLES = (
    "FIGEVAL_HOME",
    "FIGEVAL_DATA_MIRROR",
    "FIGEVAL_DATA_COPIES",
    "FIGEVAL_PLUGINS",
    "HF_HOME",
    "HF_HUB_OFFLINE",
)
COLLECTIONS = ("all", "dev")  # extras that are nothing but others


@dataclass(frozen=True, slots=True)
class Checkup:
    """Facts by section; problems and hints, which state the cure. Only problems make the exit code 1."""

    facts: JSON
    problems: list[str]
    hints: list[str]


def checkup(plugins: Sequence[JSON]) -> Checkup:
    """Check everything without using the network; `plugins` are the rows of `figeval ls plugins`."""
    requirements, missing = packages()
    states, broken, absent = data_states()
    optional = extras()
    folder = home()
    ancestor = next(ancestor for ancestor in (folder, *folder.absolute().parents) if ancestor.exists())
    cache_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else 0
    mirrors = cache.mirrors()
    facts: JSON = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()}",
        "packages": provenance.versions(),
        "requirements": requirements,
        "extras": optional,
        "hardware": provenance.hardware(),
        "devices": devices(),
        "cache": {"home": str(folder), "bytes": cache_bytes, "free": disk_usage(ancestor).free},
        "mirrors": mirrors,
        "data": states,
        "plugins": list(plugins),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }
    of_plugins = [f"plugin {row['name']}: {problem}" for row in plugins for problem in row["problems"]]
    unusable = [*missing]
    if not ancestor.is_dir() or not os.access(ancestor, os.W_OK | os.X_OK):
        unusable += [f"cannot write to {folder}; set FIGEVAL_HOME to a writable folder"]
    gone = [mirror for mirror in mirrors if not cache.is_address(mirror) and not expand_user(mirror).is_dir()]
    unusable += [f"the mirror {mirror} is not a folder; correct FIGEVAL_DATA_MIRROR" for mirror in gone]
    unusable += [*broken, *of_plugins]
    not_installed = ", ".join(name for name, has in optional.items() if not has)
    cure = [f"extras that are not installed: {not_installed}; `pip install 'figeval[NAME]'`"] if not_installed else []
    return Checkup(facts, unusable, [*absent, *cure])


def packages() -> tuple[JSON, list[str]]:
    """Return (requirement → installed version or None, problems), for the requirements in figeval's own metadata."""
    from packaging.requirements import Requirement

    versions: JSON = {}
    problems = []
    for requirement in map(Requirement, requirement_texts()):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        has = provenance.installed_version(requirement.name)
        versions[requirement.name] = has
        if has is None or not requirement.specifier.contains(has, prereleases=True):
            state = f"{has} is installed" if has else "is not installed"
            problems.append(
                f"{requirement.name} {state}, figeval needs {requirement.specifier}; `pip install '{requirement}'`"
            )
    return versions, problems


def requirement_texts(distribution: str = "figeval") -> list[str]:
    """Return the requirements in the metadata of a distribution, or an empty list if it is not installed."""
    try:
        return requires(distribution) or []
    except PackageNotFoundError:
        return []


def extras() -> dict[str, dict[str, str]]:
    """Return the versions of the packages of each optional extra, empty if one of them is not installed."""
    names = metadata("figeval").get_all("Provides-Extra") if requirement_texts() else None
    versions_by_extra = {}
    for extra in (name for name in names or () if name not in COLLECTIONS):
        has = {name: provenance.installed_version(name) for name in extra_packages("figeval", extra)}
        versions_by_extra[extra] = {} if None in has.values() else {name: str(value) for name, value in has.items()}
    return versions_by_extra


def extra_packages(distribution: str, extra: str) -> Iterator[str]:
    """Yield what an extra of a distribution adds to it, with what the extras add that it names: `sacrebleu[ja]`."""
    from packaging.requirements import Requirement

    for requirement in map(Requirement, requirement_texts(distribution)):
        marker = requirement.marker
        if marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
            if requirement.name != distribution:
                yield requirement.name
            for contained in sorted(requirement.extras):
                yield from extra_packages(requirement.name, contained)


def devices() -> list[str]:
    """Return the devices on which models can run, the best first, or an empty list if torch is not installed."""
    try:
        import torch
    except ImportError:
        return []
    cards = [f"cuda:{index} {torch.cuda.get_device_name(index)}" for index in range(torch.cuda.device_count())]
    return [*cards, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def data_states() -> tuple[JSON, list[str], list[str]]:
    """Return (benchmark → number of files by state, corrupt files, benchmarks with missing files)."""
    states: dict[str, Counter[str]] = {}
    broken = []
    for file in data_files():
        status = cache.status(file)
        states.setdefault(file.benchmark, Counter())[status.state] += 1
        if status.state == "corrupt":
            mine = status.path == cache.cached_path(file)
            cure = f"`figeval data fetch --force {file.benchmark}`" if mine else "replace it in that mirror"
            broken.append(f"{status.path} is corrupt; {cure}")
    absent = [
        f"{name}: {counts['missing']} of {counts.total()} files missing; `figeval data fetch {name}`, or name a mirror"
        for name, counts in states.items()
        if counts["missing"]
    ]
    return {name: dict(counts) for name, counts in states.items()}, broken, absent
