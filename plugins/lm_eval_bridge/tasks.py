"""Any task of figeval as a task of lm-eval. Only lm-eval imports this module, through a stub (see stubs.py).

Both harnesses share the route: `construct_requests` sends its first round of requests, `process_results` passes it the
answers and scores its prediction with figeval's metrics. Prompts, solved examples, examples and metrics come from the
same functions as in `figeval run`, so a model gets the same number in both.
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

from lm_eval.api.metrics import mean
from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig

from figeval.config import RunConfig
from figeval.errors import TaskError, UnknownName
from figeval.metrics import Statistic
from figeval.metrics.aggregation import GroupAggregator
from figeval.models.model import Model
from figeval.prompts import PromptContext, variables
from figeval.runs import Harness
from figeval.runs.plan import context_of, template_of
from figeval.runs.retrieval.shots import shots_of
from figeval.runs.score import MetricSet
from figeval.runs.task_metrics import metrics_of
from figeval.spec.survey import survey
from figeval.types import Continuation, Example, Message, Prediction, Prompt, Reply, Request, plain_text

from ..causal.lm_eval_requests import decoding, reply, split_pair
from ..torch_models.loading import suppress_logging
from . import releases
from .lm_eval_models import Rendered, model_registry

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM

model_registry()  # makes our models available to all users of our tasks

STRICT_ACCURACY = "acc_strict"
# Settings of a stub that lm-eval keeps, and users may override. 0.5 adds a second name for tasks that are members of a
# group; without it, a task has the same name in the results of all releases, and is asked once if two groups have it.
STUB_SETTINGS = ("task", "task_alias", "num_fewshot", "repeats", "metadata")
Document: TypeAlias = Mapping[str, object]  # an example in lm-eval's form
LMResult: TypeAlias = tuple[float, bool] | str  # of an LM: a log-likelihood and whether it is greedy, or a text


@lru_cache(maxsize=8)
def harness(include: tuple[str, ...]) -> Harness:
    """Return the harness with everything that plugins offer, and the tasks of further folders."""
    return Harness(include=tuple(map(Path, include)))


class FigevalTask(Task):  # type: ignore[misc]  # lm-eval is not typed
    """One task on one route, named by the stub's `metadata: {figeval: {task, route, include}}`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        origin = config["metadata"]["figeval"]
        self.harness = harness(tuple(origin.get("include", ())))
        self.spec = self.harness.catalogue.tasks.get(origin["task"])
        routes = {route.name: route for route in self.harness.routes.of(self.spec.type)}
        if origin["route"] not in routes:
            raise UnknownName("route", origin["route"], routes, see="figeval ls routes")
        self.route = routes[origin["route"]]
        self.seed = 0
        self.setting: Setting | None = None
        self.lm: LM | None = None
        stub_settings = {name: config[name] for name in STUB_SETTINGS if name in config}
        with suppress_logging("lm_eval", errors=True):  # it warns that there are no decoding options
            # A task that generates would be given a stop text.
            settings = TaskConfig(**stub_settings, output_type="loglikelihood", filter_list=releases.first_answers())
            releases.construct(self, settings)
        self.VERSION = self.spec.version
        self.OUTPUT_TYPE = "generate_until" if "generate" in self.route.needs else "loglikelihood"
        self.set_config("output_type", self.OUTPUT_TYPE)
        self.set_config("generation_kwargs", {})  # --gen_kwargs adds to it

    @property
    def task_name(self) -> str:
        """Name of the task in lm-eval, which older releases query only for tasks made from YAML."""
        return str(self.config.task)

    def dump_config(self) -> dict[str, object]:
        """Return the origin and the settings of the task, for lm-eval's results."""
        origin = {
            "version": version("figeval"),
            "task": self.spec.name,
            "task_version": self.spec.version,
            "route": self.route.name,
            "owner": self.spec.owner,
        }
        template = template_of(self.spec, self.route)
        if template is not None:
            origin |= {"template": template.name, "template_sha256": template.sha256}
            origin |= {"prompt_fields": sorted(self.spec.prompt_fields)} if self.spec.prompt_fields else {}
        return {**super().dump_config(), "figeval": origin}

    # ---- data --------------------------------------------------------------------------------------------------------

    def download(self, *_args: object, **_options: object) -> None:
        """Do nothing: figeval reads its data on first use, from its own cache or mirror."""

    @cached_property
    def examples(self) -> dict[str, Example]:
        """Test examples by id. Raises `DataError` as `figeval run` does."""
        source = partial(self.harness.examples, self.spec)
        survey(self.spec.name, source)
        return {example.id: example for example in source()}

    @cached_property
    def docs(self) -> list[Document]:
        """Examples in the form in which lm-eval writes them into its samples."""
        documents = [variables(example.for_prompt()) for example in self.examples.values()]
        return [{name: _plain(value) for name, value in document.items()} for document in documents]

    def has_training_docs(self) -> bool:
        """Return False: figeval selects solved examples, never lm-eval."""
        return False

    def has_validation_docs(self) -> bool:
        """Return False, as `has_training_docs` does."""
        return False

    def has_test_docs(self) -> bool:
        """Return True: every task has a test split."""
        return True

    def test_docs(self) -> list[Document]:
        """Return the examples in figeval's order, so that --limit takes the same ones."""
        return self.docs

    def doc_to_text(self, doc: Document) -> str:
        """Return the question without what is shown before it."""
        first = self._first_requests(doc, self._context(Setting()))[0]
        return first.plain if isinstance(first, Prompt) else str(getattr(first, "context", ""))

    def doc_to_target(self, doc: Document) -> str:
        """Return the right answer for lm-eval's samples; scores do not use it."""
        return str(next((doc[key] for key in self.spec.task_type.gold_fields if key in doc), ""))

    # ---- questions ---------------------------------------------------------------------------------------------------

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        """Use lm-eval's fewshot seed as figeval's --seed, so that the same seed shows the same examples."""
        self.seed = seed or 0
        self._contexts.cache_clear()

    def build_all_requests(self, **options: object) -> None:
        """Build requests as lm-eval does, and record the model, whose tokenizer tells whether an answer was cut off."""
        self.lm = asking_model()
        super().build_all_requests(**options)

    def fewshot_context(self, doc: Document, num_fewshot: int, **flags: Any) -> Sequence[Request]:
        """Return the route's first round of requests, with everything that precedes the question."""
        template = flags.get("chat_template") if flags.get("apply_chat_template") else None
        self.setting = Setting(
            num_fewshot or 0,
            flags.get("system_instruction") or "",
            template,
            bool(flags.get("fewshot_as_multiturn")) or template is None,
        )
        return self._first_requests(doc, self._context(self.setting))

    def construct_requests(self, doc: Document, ctx: Sequence[Request], **options: object) -> list[Instance]:
        """Return the requests in the form of lm-eval's methods."""
        origin = releases.origin_of(self, options, self.doc_to_target(doc))
        calls = [self._arguments(request) for request in ctx]
        return [
            releases.instance(method, arguments, origin, doc, index) for index, (method, arguments) in enumerate(calls)
        ]

    def _arguments(self, request: Request) -> tuple[str, tuple[object, ...]]:
        """Return the method of an LM that answers a request, and its arguments."""
        if isinstance(request, Continuation):
            return "loglikelihood", split_pair(request.context, request.continuation)
        assert isinstance(request, Prompt), request  # stubs are made for such routes only
        return "generate_until", ((self.setting or Setting()).render(request), self._decoding(request))

    def _decoding(self, request: Prompt) -> dict[str, Any]:
        """Return options for greedy decoding, as in figeval, with those of --gen_kwargs on top."""
        return {**decoding(request), **(self.config.generation_kwargs or {})}

    def _first_requests(self, doc: Document, context: PromptContext) -> Sequence[Request]:
        return next(self.route.begin(self.examples[str(doc["id"])], context))

    @cached_property
    def _contexts(self) -> _lru_cache_wrapper[PromptContext]:
        """Cached contexts per setting, so that the pool of solved examples is read once."""
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
        """Metrics of the task that are meaningful on this route."""
        config = RunConfig(tasks=(self.spec.name,), model="lm-eval")
        metrics = metrics_of(self.spec, self.route, config, self.harness)
        return MetricSet(metrics, self.spec.labels, self.spec.with_language)

    def process_results(self, doc: Document, results: Sequence[LMResult]) -> dict[str, object]:
        """Return the metrics of one example; one that does not apply to it (no answer) is left out, not zero.

        Values of several numbers are tuples: lm-eval 0.5 takes a list for the values of repeated answers.

        Raises:
            TaskError: the route asks a second round of questions, which lm-eval does not support.
        """
        example = self.examples[str(doc["id"])]
        prediction = self._predict(example, results)
        features = self.measures.features(example, prediction)
        values: dict[str, object] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in features.items()
        }
        if self.is_strict and example.group is not None:
            values[STRICT_ACCURACY] = (example.group, example.cluster, values.get("acc"))
        return values

    def _predict(self, example: Example, results: Sequence[LMResult]) -> Prediction:
        """Run the dialogue from the start with the answers: lm-eval may store requests on disk, but no generator."""
        setting = self.setting or Setting(num_fewshot=self.config.num_fewshot or 0)
        dialogue = self.route.begin(example, self._context(setting))
        requests = next(dialogue)
        try:
            dialogue.send([self._output(*pair) for pair in zip(requests, results, strict=True)])
        except StopIteration as stop:
            prediction: Prediction = stop.value
            return prediction
        raise TaskError(
            f"{self.spec.name}: {self.route.name} needs a second round of requests, but lm-eval has only one"
        )

    def _output(self, request: Request, result: LMResult) -> float | Reply:
        """Return an answer of the LM in the form that the route expects."""
        if isinstance(request, Prompt):
            return reply(self.lm, cast("str", result), int(self._decoding(request)["max_gen_toks"]))
        return float(cast("tuple[float, bool]", result)[0])

    @property
    def is_strict(self) -> bool:
        """True if whole minimal pairs are scored, too."""
        return self.spec.group is not None and "acc" in self.measures.statistics

    def aggregation(self) -> dict[str, Callable[..., float]]:
        """Return the aggregation of each metric: a mean is lm-eval's own, for which it has a standard error."""

        def summary(statistic: Statistic) -> Callable[..., float]:
            def combine(rows: Sequence[Sequence[float]]) -> float:
                import numpy as np

                return float(statistic.combine(np.array([math.fsum(column) for column in zip(*rows, strict=True)])))

            return mean if statistic.is_mean else combine

        aggregations = {name: summary(statistic) for name, statistic in self.measures.statistics.items()}
        if self.is_strict:
            aggregations[STRICT_ACCURACY] = partial(_strict, self.measures.statistics["acc"])
        return aggregations

    def aggregate(self, bootstrap_iters: int | None = None) -> tuple[dict[str, object], int]:
        """Return all scores and the number of examples. lm-eval calls this from 0.5 on."""
        numbers, count = super().aggregate(0)
        return {**numbers, **(releases.errors_of_means(self) if bootstrap_iters else {})}, count

    def override_metric(self, metric_name: str) -> None:
        """Replace all metrics by `metric_name`, as lm-eval does for --predict_only."""
        super().override_metric(metric_name)
        releases.leave_out_metrics(self, metric_name)

    def higher_is_better(self) -> dict[str, bool]:
        """Return the direction of each metric as registered."""
        directions = {metric.name: metric.higher_is_better for metric in self.measures.metrics}
        return {**directions, STRICT_ACCURACY: True} if self.is_strict else directions


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


def _strict(statistic: Statistic, rows: Sequence[tuple[str, str | None, float | None]]) -> float:
    """Return the share of minimal pairs whose members are all right."""
    tally = GroupAggregator("acc", statistic)
    for group, cluster, value in rows:
        tally.add(group, cluster, None if value is None else (value, 1.0))
    score = tally.score().value
    return math.nan if score is None else score


# ---- how lm-eval wants prompts put, and who is asked -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """The form of prompts by lm-eval's flags. `template` is the model's, or None without --apply_chat_template."""

    num_fewshot: int = 0
    system_instruction: str = ""
    template: Callable[..., Rendered] | None = None
    as_multiturn: bool = True

    def chat(self, messages: Sequence[Message]) -> Rendered:
        """Return a conversation rendered by the model's template; for a chat API, in lm-eval's own form."""
        assert self.template is not None
        turns = messages if self.as_multiturn else fold_turns(messages)
        return self.template([asdict(turn) for turn in turns])

    def render(self, prompt: Prompt) -> Rendered:
        """Return a prompt in the form of the model's method."""
        return prompt.plain if self.template is None else self.chat(prompt.messages)


def fold_turns(messages: Sequence[Message]) -> list[Message]:
    """Return solved examples and question as one turn of the user, after the system message."""
    system = [message for message in messages if message.role == "system"]
    return [*system, Message("user", plain_text(messages[len(system) :]))]


@dataclass(frozen=True, slots=True)
class PromptModel:
    """The attributes of a model that building a prompt needs."""

    is_chat_model: bool
    chat: Callable[[Sequence[Message]], str] | None


def asking_model() -> LM | None:
    """Return the LM that lm-eval is about to query, or None if it is not found.

    lm-eval does not pass the LM to a task, so the local variables of the callers are searched. Without it, only the
    detection of truncated answers is lost.
    """
    from lm_eval.api.model import LM

    frame = inspect.currentframe()
    while frame is not None:
        lm = frame.f_locals.get("lm")
        if isinstance(lm, LM):
            return lm
        frame = frame.f_back
    return None
