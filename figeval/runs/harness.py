"""The registries of everything that plugins provide, each filled on first use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figeval import plugins
from figeval.data import DataContext
from figeval.data.readers import Opener, fetch, load_readers, read
from figeval.metrics.catalogue import Metrics
from figeval.models.model import Backends, Model, open_model
from figeval.registry import Registry
from figeval.spec import SuiteSpec, TaskSpec
from figeval.spec.examples import build_examples, memorized_texts, read_corpus
from figeval.spec.loader import Catalogue, load_catalogue
from figeval.task_types.fields import CandidateCorpus
from figeval.task_types.registry import Routes, TaskTypes
from figeval.task_types.routes import Route, choose
from figeval.types import Example

if TYPE_CHECKING:
    from figeval.records.schema import ModelRecord
    from figeval.runs.metric_models import MetricModels

GUEST = "this program"  # owner of objects that do not come from a plugin


class Harness:
    """The registries of one set of plugins.

    Args:
        manager: plugin manager; by default that of the process.
        include: further folders with task files.
        fetch: `fetch(benchmark, path)` finds an upstream file; by default in the cache, a mirror or upstream.
        tasks: tasks and suites that a program passes as objects; only this harness knows them.
        models: models that a program passes as objects, by name. They belong to the program, so they are not closed.
    """

    def __init__(
        self,
        manager: plugins.PluginManager | None = None,
        include: tuple[Any, ...] = (),
        fetch: Callable[[str, str], Path] | None = None,
        *,
        tasks: Sequence[TaskSpec | SuiteSpec] = (),
        models: Mapping[str, Any] | None = None,
    ) -> None:
        self.manager = manager or plugins.plugin_manager()
        self.include = tuple(Path(folder) if isinstance(folder, str) else folder for folder in include)
        self.guest_tasks = tuple(tasks)
        self.guest_models = dict(models or {})
        self._fetch = fetch
        self._corpus: tuple[Any, CandidateCorpus] | None = None  # the last one, since each pass over a task needs it
        self._notes: dict[tuple[str, str], dict[str, Any]] = {}  # (folder, source) → notes of its reader

    @cached_property
    def catalogue(self) -> Catalogue:
        """Tasks and suites."""
        catalogue = load_catalogue(self.manager, self.task_types, self.include)
        for item in self.guest_tasks:
            if not _is_registered(item, catalogue):
                catalogue.add(item, GUEST)
        return catalogue

    @cached_property
    def task_types(self) -> TaskTypes:
        return TaskTypes(self.manager)

    @cached_property
    def readers(self) -> Registry[Opener]:
        """Readers of raw files."""
        return load_readers(self.manager)

    @cached_property
    def routes(self) -> Routes:
        """Routes of the task types."""
        return Routes(self.manager, self.task_types)

    @cached_property
    def metrics(self) -> Metrics:
        return Metrics(self.manager, self.task_types)

    @cached_property
    def backends(self) -> Backends:
        """Models."""
        backends = Backends(self.manager)
        for name, model in self.guest_models.items():
            backends.registry.add(name, _factory_of(model), GUEST)
        return backends

    @contextmanager
    def open_model(
        self, name: str, options: Mapping[str, Any], common: Mapping[str, Any] | None = None
    ) -> Iterator[Model]:
        """Open the model that `--model` names; in the end it is closed, unless the calling program passed it.

        Args:
            name: a registered name, a folder or a hub id.
            options: options of the model (`--model_args`).
            common: device, seed, budgets …, which only models receive that have such options.

        Raises:
            UnknownName: there is no such model.
            ModelError: the model cannot be opened with these options.
        """
        model = open_model(self.backends, name, options, common)
        with nullcontext() if name in self.guest_models else closing(model):
            yield model

    @staticmethod
    def model_record(model: Model, *, with_lineage: bool = False) -> ModelRecord:
        """Return what records say of a model, without its description; its lineage may be read from its folder.

        Raises:
            TrainError: what its folder says of its lineage is damaged.
        """
        from figeval.runs.lineage import line_of, lineage_record, model_record

        return model_record(model, lineage_record(line_of(model)) if with_lineage else None)

    @cached_property
    def shot_pools(self) -> dict[Hashable, Any]:
        """Solved examples from other tasks (`figeval.runs.retrieval.shot_pools`), which several tasks share."""
        return {}

    @cached_property
    def metric_models(self) -> MetricModels:
        from figeval.runs.metric_models import MetricModels

        return MetricModels(self.backends)

    def choose_route(self, task: TaskSpec, offers: frozenset[str], name: str | None = None) -> Route:
        """Return the first route by which a model with these capabilities can answer a task, or the `name` one.

        Raises:
            CapabilityError: there is none.
        """
        routes = [route for route in self.routes.with_parts(task.type) if route.can_distinguish(task.labels)]
        return choose(task.type, offers, routes, name)

    def rows(self, task: TaskSpec, split: str) -> Iterator[Any]:
        return self._rows(task, task.data[split])

    def _rows(self, task: TaskSpec, source: str) -> Iterator[Any]:
        folder = task.folder or files("figeval")
        context = DataContext(folder, self._fetch or fetch, self._notes.setdefault((str(folder), source), {}))
        return read(source, context, self.readers)

    def corpus(self, task: TaskSpec) -> CandidateCorpus:
        """Return the documents that all rows of a task rank; those of the last task are read once.

        Raises:
            DataError: a document is not valid, or there are none.
        """
        assert task.corpus is not None
        key = (task.folder, task.corpus)
        if self._corpus is None or self._corpus[0] != key:
            self._corpus = None  # so that memory never holds two
            self._corpus = key, read_corpus(task, self._rows(task, task.corpus.data))
        return self._corpus[1]

    def corpus_reader(self, task: TaskSpec) -> Callable[[], CandidateCorpus] | None:
        """Return the function that reads the documents of a task, or None if its rows share none."""
        return None if task.corpus is None else partial(self.corpus, task)

    def notes(self, task: TaskSpec, split: str = "test") -> dict[str, Any]:
        """Return the notes of a split's reader; they are complete once the rows have been read."""
        return self._notes.get((str(task.folder or files("figeval")), task.data.get(split, "")), {})

    def examples(self, task: TaskSpec, split: str = "test") -> Iterator[Example]:
        """Return the examples of a split, built lazily."""
        rows = iter(()) if task.examples is not None else self.rows(task, split)
        return build_examples(task, rows, split, self.corpus_reader(task))

    def memorized_texts(self, task: TaskSpec, split: str = "test") -> Iterator[str | None]:
        """Return the well-known text behind each row of a split; without the key `memorized`, there are none."""
        return memorized_texts(task, self.rows(task, split), split) if task.memorized is not None else iter(())


def _factory_of(model: Any) -> Callable[[str], Any]:
    """Return a factory without options that returns an existing model."""
    return lambda _model: model


def _is_registered(item: TaskSpec | SuiteSpec, catalogue: Catalogue) -> bool:
    """Return whether a plugin registered this very object, so that it need not be added to the catalogue."""
    if isinstance(item, SuiteSpec) or item.examples is None or item.name not in catalogue.tasks:
        return False
    return catalogue.tasks.get(item.name).examples is item.examples
