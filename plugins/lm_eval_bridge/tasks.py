"""Any task of figeval as a task of lm-eval. Imported by lm-eval alone, through a stub (see stubs.py).

A route is what both harnesses share: `construct_requests` sends its first round of requests, `process_results` hands
it the answers and scores its prediction with figeval's metrics. Prompts, solved examples, examples and metrics come
from the same functions as in `figeval run`, so a model gets the same number here and there.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import Task, TaskConfig

from figeval.config import RunConfig
from figeval.errors import TaskError, UnknownName
from figeval.evaluation import Harness
from figeval.evaluation.plan import context_of, template_of, variables
from figeval.evaluation.retrieval.shots import shots_of
from figeval.evaluation.score import MetricSet
from figeval.evaluation.task_metrics import metrics_of
from figeval.metrics import Statistic
from figeval.metrics.aggregation import GroupAggregator
from figeval.models.model import Model
from figeval.prompts import PromptContext
from figeval.spec.survey import survey
from figeval.types import Continuation, Example, Message, Prediction, Prompt, Reply, Request, plain_text

from ..causal.lm_eval_requests import decoding, reply, split
from ..encoders.loading import suppress_logging
from .lm_eval_models import Rendered, model_registry

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

    from lm_eval.api.model import LM

model_registry()  # whoever runs our tasks finds our models

STRICT = "acc_strict"
Document: TypeAlias = Mapping[str, object]  # an example as lm-eval keeps it
LMResult: TypeAlias = tuple[float, bool] | str  # of an LM: a log-likelihood and whether it is greedy, or a text


@lru_cache(maxsize=8)
def harness(include: tuple[str, ...]) -> Harness:
    """Everything that plugins offer, and the tasks of further folders."""
    return Harness(include=tuple(map(Path, include)))


class FigevalTask(Task):  # type: ignore[misc]  # lm-eval is not typed
    """One task on one route; which ones, the stub's `metadata: {figeval: {task, route, include}}` says."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        given = config["metadata"]["figeval"]
        self.harness = harness(tuple(given.get("include", ())))
        self.spec = self.harness.catalogue.tasks.get(given["task"])
        routes = {route.name: route for route in self.harness.routes.of(self.spec.type)}
        if given["route"] not in routes:
            raise UnknownName("route", given["route"], routes, see="figeval ls routes")
        self.route = routes[given["route"]]
        self.seed = 0
        self.setting: Setting | None = None
        self.lm: LM | None = None
        with suppress_logging(
            "lm_eval", errors=True
        ):  # it warns that a task without a configuration has no decoding options
            super().__init__()
        kept = {
            key: config[key] for key in ("task", "task_alias", "num_fewshot", "repeats", "metadata") if key in config
        }
        # Its own constructor would take all of them for the name. Said to write, it would be given a stop text.
        self._config = TaskConfig(**kept, output_type="loglikelihood")
        self.VERSION = self.spec.version
        self.OUTPUT_TYPE = "generate_until" if "generate" in self.route.needs else "loglikelihood"
        self.set_config("output_type", self.OUTPUT_TYPE)
        self.set_config("generation_kwargs", {})  # what --gen_kwargs adds

    @property
    def task_name(self) -> str:
        """Its name in lm-eval, which older releases ask of tasks made of YAML only."""
        return str(self.config.task)

    def dump_config(self) -> dict[str, object]:
        """For lm-eval's results: where the task comes from and how it was put."""
        about = {
            "version": version("figeval"),
            "task": self.spec.name,
            "task_version": self.spec.version,
            "route": self.route.name,
            "owner": self.spec.owner,
        }
        template = template_of(self.spec, self.route)
        if template is not None:
            about |= {"template": template.name, "template_sha256": template.sha256}
            about |= {"prompt_fields": sorted(self.spec.prompt_fields)} if self.spec.prompt_fields else {}
        return {**super().dump_config(), "figeval": about}

    # ---- data --------------------------------------------------------------------------------------------------------

    def download(self, *_args: object, **_options: object) -> None:
        """Nothing yet: figeval reads its data when it is asked for, from its own cache or mirror."""

    @cached_property
    def examples(self) -> dict[str, Example]:
        """The test examples by id. Raises `DataError` as `figeval run` does."""
        source = partial(self.harness.examples, self.spec)
        survey(self.spec.name, source)
        return {example.id: example for example in source()}

    @cached_property
    def docs(self) -> list[Document]:
        """The examples as lm-eval writes them into its samples."""
        shown = [variables(one.for_prompt()) for one in self.examples.values()]
        return [{name: _plain(value) for name, value in one.items()} for one in shown]

    def has_training_docs(self) -> bool:
        """Solved examples are drawn by figeval, never by lm-eval."""
        return False

    def has_validation_docs(self) -> bool:
        """See `has_training_docs`."""
        return False

    def has_test_docs(self) -> bool:
        """Every task has a test split."""
        return True

    def test_docs(self) -> list[Document]:
        """The examples in figeval's order, so that --limit takes the same ones."""
        return self.docs

    def doc_to_text(self, doc: Document) -> str:
        """The question as it stands, without what is shown before it."""
        first = self._asked(doc, self._context(Setting()))[0]
        return first.plain if isinstance(first, Prompt) else str(getattr(first, "context", ""))

    def doc_to_target(self, doc: Document) -> str:
        """The right answer, for lm-eval's samples; scores do not come from it."""
        return str(next((doc[key] for key in self.spec.task_type.gold_fields if key in doc), ""))

    # ---- questions ---------------------------------------------------------------------------------------------------

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        """lm-eval's fewshot seed is figeval's --seed: with the same one, the same examples are shown."""
        self.seed = seed or 0
        self._contexts.cache_clear()

    def build_all_requests(self, **options: object) -> None:
        """As lm-eval does; the model is noted on the way, whose tokenizer knows whether an answer was cut off."""
        self.lm = asking_model()
        super().build_all_requests(**options)

    def fewshot_context(self, doc: Document, num_fewshot: int, **flags: Any) -> Sequence[Request]:
        """The route's first round of requests, with everything that stands before the question."""
        template = flags.get("chat_template") if flags.get("apply_chat_template") else None
        self.setting = Setting(
            num_fewshot or 0,
            flags.get("system_instruction") or "",
            template,
            bool(flags.get("fewshot_as_multiturn")) or template is None,
        )
        return self._asked(doc, self._context(self.setting))

    def construct_requests(self, doc: Document, ctx: Sequence[Request], **options: object) -> list[Instance]:
        """The requests as lm-eval's methods want them."""
        metadata = options["metadata"]
        asked = [self._arguments(request) for request in ctx]
        return [Instance(kind, doc, given, index, metadata=metadata) for index, (kind, given) in enumerate(asked)]

    def _arguments(self, request: Request) -> tuple[str, tuple[object, ...]]:
        """The method of an LM that answers a request, and what it is given."""
        if isinstance(request, Continuation):
            return "loglikelihood", split(request.context, request.continuation)
        assert isinstance(request, Prompt), request  # stubs are made for such routes only
        return "generate_until", ((self.setting or Setting()).shown(request), self._decoding(request))

    def _decoding(self, request: Prompt) -> dict[str, Any]:
        """Greedy, as in figeval, except for what --gen_kwargs says."""
        return {**decoding(request), **(self.config.generation_kwargs or {})}

    def _asked(self, doc: Document, context: PromptContext) -> Sequence[Request]:
        return next(self.route.begin(self.examples[str(doc["id"])], context))

    @cached_property
    def _contexts(self) -> _lru_cache_wrapper[PromptContext]:
        """A context per setting: the pool of solved examples is read once."""
        return lru_cache(maxsize=4)(self._make_context)

    def _context(self, setting: Setting) -> PromptContext:
        context: PromptContext = self._contexts(setting)
        return context

    def _make_context(self, setting: Setting) -> PromptContext:
        config = RunConfig(
            tasks=(self.spec.name,),
            model="lm-eval",
            num_fewshot=setting.num_fewshot,
            seed=self.seed,
            system_instruction=setting.system_instruction,
        )
        chat = None if setting.template is None else setting.chat
        reader = Model("lm-eval", "lm-eval", PromptModel(chat is not None, chat))
        shots = shots_of(self.spec, self.harness, config)
        template = template_of(self.spec, self.route)
        context = context_of(self.spec, self.route, template, shots, config, reader)
        return replace(context, metrics=frozenset(self.measures.statistics))

    # ---- answers -----------------------------------------------------------------------------------------------------

    @cached_property
    def measures(self) -> MetricSet:
        """The task's metrics that mean something on this route."""
        config = RunConfig(tasks=(self.spec.name,), model="lm-eval")
        own = metrics_of(self.spec, self.route, config, self.harness)
        return MetricSet(own, self.spec.labels, self.spec.language_of_rows)

    def process_results(self, doc: Document, results: Sequence[LMResult]) -> dict[str, object]:
        """The metrics of one example; one that does not apply to it (no answer) is left out, not zero.

        Raises:
            TaskError: the route asks a second round of questions, which lm-eval has no place for.
        """
        example = self.examples[str(doc["id"])]
        prediction = self._predicted(example, results)
        found: dict[str, object] = {**self.measures.features(example, prediction)}
        if self.is_strict and example.group is not None:
            found[STRICT] = [example.group, example.cluster, found.get("acc")]
        return found

    def _predicted(self, example: Example, results: Sequence[LMResult]) -> Prediction:
        """Begin the dialogue anew and hand it the answers: lm-eval may keep requests on disk, but no generator."""
        setting = self.setting or Setting(num_fewshot=self.config.num_fewshot or 0)
        dialogue = self.route.begin(example, self._context(setting))
        asked = next(dialogue)
        try:
            dialogue.send([self._output(*pair) for pair in zip(asked, results, strict=True)])
        except StopIteration as stop:
            prediction: Prediction = stop.value
            return prediction
        raise TaskError(f"{self.spec.name}: {self.route.name} asks a second round; lm-eval has one")

    def _output(self, request: Request, result: LMResult) -> float | Reply:
        """An answer of the LM as the route knows it."""
        if isinstance(request, Prompt):
            return reply(self.lm, cast("str", result), int(self._decoding(request)["max_gen_toks"]))
        return float(cast("tuple[float, bool]", result)[0])

    @property
    def is_strict(self) -> bool:
        """Whether whole minimal pairs are scored, too."""
        return self.spec.group is not None and "acc" in self.measures.statistics

    def aggregation(self) -> dict[str, Callable[..., float]]:
        """How lm-eval sums up: a mean is lm-eval's own, for which it knows a standard error."""

        def summary(statistic: Statistic) -> Callable[..., float]:
            def combined(rows: Sequence[Sequence[float]]) -> float:
                import numpy as np

                return float(statistic.combine(np.array([math.fsum(column) for column in zip(*rows, strict=True)])))

            return mean if statistic.is_mean else combined

        found = {name: summary(statistic) for name, statistic in self.measures.statistics.items()}
        if self.is_strict:
            found[STRICT] = partial(_strict, self.measures.statistics["acc"])
        return found

    def higher_is_better(self) -> dict[str, bool]:
        """As the metrics were registered."""
        found = {metric.name: metric.higher_is_better for metric in self.measures.metrics}
        return {**found, STRICT: True} if self.is_strict else found


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


def _strict(statistic: Statistic, rows: Sequence[tuple[str, str | None, float | None]]) -> float:
    """The share of minimal pairs with all members right."""
    tally = GroupAggregator("acc", statistic)
    for group, cluster, value in rows:
        tally.add(group, cluster, None if value is None else (value, 1.0))
    score = tally.score().value
    return math.nan if score is None else score


# ---- how lm-eval wants prompts put, and who is asked -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """How lm-eval wants prompts, by its flags. `template` is that of the model, None without --apply_chat_template."""

    num_fewshot: int = 0
    system_instruction: str = ""
    template: Callable[..., Rendered] | None = None
    as_multiturn: bool = True

    def chat(self, messages: Sequence[Message]) -> Rendered:
        """A conversation as the model's template writes it; for a chat API, whatever lm-eval keeps it as."""
        assert self.template is not None
        turns = messages if self.as_multiturn else folded(messages)
        return self.template([asdict(turn) for turn in turns])

    def shown(self, prompt: Prompt) -> Rendered:
        """A prompt as the model's method wants it."""
        return prompt.plain if self.template is None else self.chat(prompt.messages)


def folded(messages: Sequence[Message]) -> list[Message]:
    """Solved examples and question as one turn of the user, behind the system message."""
    system = [message for message in messages if message.role == "system"]
    return [*system, Message("user", plain_text(messages[len(system) :]))]


@dataclass(frozen=True, slots=True)
class PromptModel:
    """What stands for the model where the prompt is put together."""

    converses: bool
    chat: Callable[[Sequence[Message]], str] | None


def asking_model() -> LM | None:
    """The LM that lm-eval is about to ask. It tells a task nothing about it, so its caller's variables are looked at;
    None where they hold none, which costs no more than to know of an answer that it was cut off.
    """
    from lm_eval.api.model import LM

    frame = inspect.currentframe()
    while frame is not None:
        found = frame.f_locals.get("lm")
        if isinstance(found, LM):
            return found
        frame = frame.f_back
    return None
