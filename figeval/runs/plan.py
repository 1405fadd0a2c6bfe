"""Planning of a run: decides how each task is put to the model, and checks everything before weights are loaded.

`prepare` turns the flags of a run into plans: tasks and their variants, the model, a route for each task, metrics, the
template and the context from which prompts are rendered. Names, capabilities, data, templates and settings are checked
along the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from figeval.config import RunConfig
from figeval.errors import CapabilityError, ExampleError, ModelError, TaskError
from figeval.io.files import expand_user, is_folder
from figeval.io.frontend import warn
from figeval.language.words import TaskWords, notion_of
from figeval.metrics.catalogue import statistic_of
from figeval.models.model import Model, open_model
from figeval.prompts import LETTERS, PromptContext, PromptTemplate, Shots, SolvedExamples, load_template, variables
from figeval.records.seen import about_in
from figeval.runs.harness import Harness
from figeval.runs.limits import (
    apply_flags,
    check_columns,
    check_model,
    check_room,
    check_samples,
    config_on,
    is_askable,
    unasked_notes,
)
from figeval.runs.omissions import Omission, answerable, available, solved_tasks
from figeval.runs.task_metrics import check_metrics, descriptions, metrics_of, signatures
from figeval.runs.task_settings import check_settings, refuse_unused_settings
from figeval.runs.variants import Variant, check_prompts, chosen_tasks, missing_probes, tasks_by_name, variants
from figeval.spec import TaskSpec
from figeval.spec.examples import check_languages
from figeval.spec.survey import Portion, Survey, survey
from figeval.task_types.base import Metric
from figeval.task_types.debiasing import CONTENT_FREE
from figeval.task_types.routes import Route, choose
from figeval.types import JSON, Example

if TYPE_CHECKING:
    from figeval.records.training import Floor
    from figeval.runs.retrieval.augmentation import Augmenter

PARAGRAPH = ("\n\n",)  # stop sequence for models that merely continue a text
CLOSENESS = frozenset({"score_pairs", "embed"})  # capabilities with which an empty query may tie everything
WRITES_NOTHING = "has the model write nothing, so that all samples would be equal"
SHORT, LONG = 16, 512  # new tokens: for a letter or a word; for a chat model, which writes other text before it


# ---- plans -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A variant of a task with everything that is needed to put it to the model."""

    variant: Variant
    route: Route
    metrics: tuple[Metric, ...]
    baselines: tuple[str, ...]
    context: PromptContext
    template: PromptTemplate | None  # None if the route renders no prompt
    fit_examples: Callable[[tuple[str, ...]], Iterator[Example]]
    available: Survey  # of all examples, before --limit or --sample
    notes: Mapping[str, Any]  # remarks of the function that reads the data
    signatures: Mapping[str, str]  # metric → how its library computed it, e.g. sacrebleu's signature
    augment: Augmenter | None  # augments examples for the model, never for trivial baselines
    retrieval: Mapping[str, Any]  # settings that describe the augmentation and retrieved few-shot examples
    config: RunConfig
    floor: Floor | None = None  # if the variant is a floor: the model's counterpart trained on the same probe
    remarks: tuple[str, ...] = ()  # warnings about the answers that are known beforehand, for the task's record

    @property
    def task(self) -> TaskSpec:
        """Task, with the template of the variant."""
        return self.variant.task

    @property
    def name(self) -> str:
        """Name in records and file names: `task` or `task@variant`."""
        return self.variant.full_name

    @property
    def is_reserve(self) -> bool:
        """True for a probe that is asked only if the floor of its task says nothing (`figeval.runs.baselines`)."""
        return bool(self.variant.substitute_for) and not self.config.probes

    @property
    def n(self) -> int:
        """Number of examples after --limit or --sample."""
        return self.available.subset.n

    @property
    def extractor(self) -> str | None:
        """Version of the reply reader, or None on routes without replies."""
        return self.route.reader.version if self.route.reader is not None else None

    def examples(self) -> Iterator[Example]:
        return self.available.subset.of(self.variant.examples())

    def asked(self, example: Example) -> Example:
        """Return an example as the model sees it, i.e. augmented."""
        return example if self.augment is None else self.augment(example)

    def originals(self) -> Iterator[Example]:
        """Return the unchanged examples of a probe, with the same ids; empty for other variants."""
        return self.available.subset.of(self.variant.originals())

    @property
    def words(self) -> TaskWords:
        """The words of the texts of the task; for several languages, all examples are read."""
        task = self.task
        if len(task.languages) == 1:
            return TaskWords(task.reading_of(""))
        readings = {language: task.reading_of(language) for language in task.languages}
        return TaskWords(
            by_text={text: readings[example.language] for example in self.variant.examples() for text in example.texts}
        )

    def source(self, splits: tuple[str, ...]) -> tuple[str, ...]:
        """Return a key that is equal for splits with equal examples: their source and how they are built."""
        task = self.task
        if task.examples is not None:
            return (task.name,)
        source = (task.owner, str(task.folder), task.data[task.split(*splits) or "test"])
        return (*source, task.type, repr(task.fields), repr(task.corpus), repr(task.shuffle_options), *task.labels)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the task's record, without those that were not requested."""
        context, config = self.context, self.config
        settings: dict[str, Any] = {"num_fewshot": config.num_fewshot, "split": "test", **self.notes}
        if len(self.task.languages) > 1:
            settings["languages"] = list(self.task.languages)
        if context.labels:
            settings["labels"] = list(context.labels)
        if self.task.shuffle_options is not None:
            settings["shuffle_options"] = self.task.shuffle_options.model_dump()
        settings |= context.settings
        if self.route.renders:
            settings["verbalizer"] = {label: list(context.words(label)) for label in self.task.labels}
        if self.route.renders and self.task.prompt_fields:
            names, digest = sorted(self.task.prompt_fields), self.available.prompted_sha256
            settings["prompt_fields"] = {"names": names, "sha256": digest}
        if self.route.parts:
            settings["routes"] = {part.task_type: part.name for part in self.route.parts}
        if "generate" in self.route.needs:
            settings |= {"stop": list(context.stop), "max_new_tokens": context.max_new_tokens}
        if self.signatures:
            settings["signatures"] = dict(self.signatures)
        if config.num_fewshot and config.shots != "per_example":
            settings["shots"] = config.shots
        settings |= self.retrieval
        scored = bool(context.labels) and bool(self.route.needs & {"fill", "loglikelihood"})
        optional_settings = {
            "reasoning": config.reasoning,
            "constrain": config.constrain,
            "decision": scored and "argmax",  # over the labels' words; earlier versions added up the words of a label
            "chat_template": context.chat is not None,
            "system_instruction": config.system_instruction,
            "system_as_user": config.system_as_user,
            "orders": config.orders,
            "samples": config.samples if config.samples > 1 else 0,
            "calibration": list(CONTENT_FREE) if config.calibrate else [],
            "language": self.task.language_of_rows,
            "segmenter": self.task.segmenters,
            "metric_arguments": descriptions(self.metrics),
        }
        return settings | {key: value for key, value in optional_settings.items() if value}


def prepare(
    config: RunConfig, harness: Harness, reading: Callable[[str], None] = lambda _: None
) -> tuple[Model, list[Plan], list[Omission]]:
    """Return the model, the plans, and the tasks that are left out.

    `reading` is called with the name of each task before its examples are read for the first time.

    Routes are chosen for all tasks before any data are read, and all data are read before weights are loaded.

    Raises:
        FigevalError: a name is unknown, the model cannot answer a task, or a template or the data are broken.
    """
    all_tasks = chosen_tasks(config, harness)
    check_prompts(all_tasks, config.prompts)
    check_metrics(all_tasks, config, harness.metrics)
    all_tasks, unsolved = solved_tasks(all_tasks, config, harness)
    model = model_of(config, harness)
    for task_type in config.routes:
        harness.task_types.entry(task_type)  # raises UnknownName
    for task in all_tasks:
        check_settings(task, harness)
    tasks, unanswerable = answerable(all_tasks, model, harness, config)
    planner = Planner(config, harness, model, reading)
    routes = [route_of(task, model, harness, config) for task in tasks]
    refuse_unused_settings(zip(tasks, routes, strict=True), config, harness)
    check_samples(model, tasks, routes, config, harness)
    plans, unavailable = available(planner.plans, zip(tasks, routes, strict=True), tasks_by_name(config, harness))
    check_room(model, (plan.context for plan in plans), config)
    check_columns(config, [plan.available for plan in plans])
    return model, plans, [*unsolved, *unanswerable, *unavailable]


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes the plans of one model."""

    config: RunConfig
    harness: Harness
    model: Model
    reading: Callable[[str], None] = lambda _task: None

    def plans(self, task: TaskSpec, route: Route) -> Iterator[Plan]:
        """Yield a plan for each variant of the task, the task itself first."""
        config, available = self.config, None
        portion = Portion(limit=config.limit, sample=config.sample, stratify=config.stratify, seed=config.seed)
        augment = self._augmenter(task)
        for variant in variants(task, self.config, self.harness, substitutes=bool(route.needs & CLOSENESS)):
            if available is None or variant.kind == "probe":  # prompts share the examples of the task
                self.reading(variant.full_name)
                try:
                    available = survey(variant.full_name, variant.examples, portion, task.annotations)
                except TaskError:
                    if variant.substitute_for and not self.config.probes:  # nobody asked for it
                        continue
                    raise
                check_languages(task, available.languages)
            yield self._plan(variant, route, available, augment)

    def _plan(self, variant: Variant, route: Route, available: Survey, augment: Augmenter | None) -> Plan:
        task, config = variant.task, config_on(route, self.config)
        template = template_of(task, route)
        alone = context_of(task, route, template, Shots((), 0, 0), config, self.model)

        def scored() -> Iterator[Example]:
            return available.subset.of(variant.examples())

        shots, shots_record = self._shots(task, augment, partial(is_askable, route, alone), scored)
        added, plain = ({}, []) if augment is None else (augment.record(scored()), augment.remarks(scored()))
        retrieval = {**({"augment": added} if added else {}), **shots_record}
        metrics = metrics_of(task, route, config, self.harness)
        names = frozenset(metric.name for metric in metrics)
        context = replace(alone, shots=shots.before, metrics=names, pool=pool_of(task, self.harness))
        if route.reader is not None:
            route.reader.check()  # before a model has answered
        notion_of(task.segmenters.values())
        # A broken template fails here, before weights are loaded, which some models need to know what fits.
        example, checked = available.first, replace(context, has_room=None)
        with suppress(ExampleError):
            check_shown(task, route, example, checked, augment)
        for check in (statistic_of(metric, task.labels).check for metric in metrics):
            if check is not None:
                check(example)
        floor = floor_of(variant, self.model)
        return Plan(
            variant=variant,
            route=route,
            metrics=metrics,
            baselines=baselines_of(variant, config) if floor is None else (floor.name,),
            context=context,
            template=template,
            fit_examples=lambda splits: map(
                task.with_language, self.harness.examples(task, task.split(*splits) or "test")
            ),
            available=available,
            notes=self.harness.notes(task),
            signatures=signatures(metrics, task),
            config=config,
            augment=augment,
            retrieval=retrieval,
            floor=floor,
            remarks=(
                *unasked_notes(route, checked, available, scored),
                *missing_probes(variant, self.config),
                *plain,
                *([] if config.samples == self.config.samples else [f"asked once: {route.name} {WRITES_NOTHING}"]),
            ),
        )

    def _augmenter(self, task: TaskSpec) -> Augmenter | None:
        if not (self.config.augment or task.augment):
            return None
        from figeval.runs.retrieval.augmentation import augmenter

        return augmenter(task, self.config.augment, self.harness, self.config.device)

    def _shots(
        self,
        task: TaskSpec,
        augment: Augmenter | None,
        is_shown: Callable[[Example], bool],
        questions: Callable[[], Iterator[Example]],
    ) -> tuple[SolvedExamples, JSON]:
        """Return the few-shot examples, and the settings that describe how they were retrieved."""
        if not self.config.num_fewshot:
            return Shots((), 0, self.config.seed), {}
        from figeval.runs.retrieval.shot_pools import shot_source
        from figeval.runs.retrieval.shots import shots_of, shots_record

        shots = shots_of(task, self.harness, self.config, augment, is_shown)
        source = shot_source(task, self.config, self.harness)
        return shots, {**source.record, **shots_record(shots, questions)}


def baselines_of(variant: Variant, config: RunConfig) -> tuple[str, ...]:
    """Return the names of the trivial models that are baselines of a variant; only a task itself has any."""
    probed = ("overlap",) if config.probes else ()
    return tuple(dict.fromkeys((*variant.task.baselines, *probed))) if variant.kind == "task" else ()


def floor_of(variant: Variant, model: Model) -> Floor | None:
    """Return the floor model in the model's folder if it was trained on this variant, else None.

    Warns if the model was trained on this task but the floor in its folder on another probe or task.

    Raises:
        TrainError: a file in the folder of the floor is damaged.
    """
    if not variant.is_floor or not model.source or not is_folder(folder := expand_user(model.source)):
        return None
    from figeval.records.training import floor_in

    floor = floor_in(folder)
    if floor is None or (floor.task, floor.probe) == (variant.task.name, variant.name):
        return floor
    if about_in(folder).get("task") == variant.task.name:
        other = f"{floor.folder} was trained on the probe {floor.probe} of {floor.task}"
        warn(f"{other}, so it is not a floor of {variant.task.name}; move it away and train one with --floor")
    return None


# ---- tasks, model, routes --------------------------------------------------------------------------------------------


def model_of(config: RunConfig, harness: Harness) -> Model:
    """Open the model of --model.

    Raises:
        UnknownName, ModelError: there is no such model, or it does not support --processes.
        CapabilityError: the model does not support --apply_chat_template, --no_chat_template or --constrain.
    """
    flags = ("device", "batch_size", "seed", "apply_chat_template", "max_cost", "max_tokens")
    common = {flag: getattr(config, flag) for flag in flags}
    common |= {"account": config.identity(), "reasoning": config.thinking, "batch": config.batch or None}
    common |= {"resubmit_lost": config.resubmit_lost or None}
    model = open_model(harness.backends, config.model, config.model_args, common)
    batched = getattr(model.backend, "min_batch_size", 1) > 1
    if (config.processes > 1 or config.ray) and batched:  # the workers would also have to share one budget
        flag = "--ray" if config.ray else "--processes"
        raise ModelError(f"{model.name} already answers many requests in parallel; leave out {flag}")
    check_model(model, config, harness)
    return model


def route_of(task: TaskSpec, model: Model, harness: Harness, config: RunConfig) -> Route:
    """Return the route that the model takes on a task.

    Raises:
        CapabilityError: there is no such route, or a flag would have no effect on it.
    """
    try:
        name = config.routes.get(task.type, task.route)
        routes = [route for route in harness.routes.with_parts(task.type) if is_allowed(route, task, config, name)]
        route = choose(task.type, model.offers, routes, name)
    except CapabilityError as error:
        hint = f"{hint}, " if (hint := getattr(model.backend, "capability_hint", "")) else ""
        cure = f"{hint}leave {task.name} out of --tasks, or use another model"
        raise CapabilityError(f"{model.name} cannot answer {task.name}: {error}; {cure}") from error
    return apply_flags(task, route, config, [route for route in routes if route.needs <= model.offers])


def is_allowed(route: Route, task: TaskSpec, config: RunConfig, route_name: str | None) -> bool:
    """Return whether a route may be chosen, alone or as a part of another route.

    It may not if --route names another one for its task type. Some routes also work only for a certain number of
    labels; a route that was requested by name reports that itself.
    """
    if route.task_type == task.type:
        return route.name == route_name or route.can_distinguish(task.labels)
    return config.routes.get(route.task_type, route.name) == route.name


# ---- prompts and settings --------------------------------------------------------------------------------------------


def template_file(task: TaskSpec) -> PromptTemplate:
    """Load the template of a task, or that of its task type. Raises `TaskError` if it is missing or broken."""
    if isinstance(task.replaced_template, PromptTemplate):
        return task.replaced_template
    return load_template(task.template, task.folder) if task.template else default_template(task)


def default_template(task: TaskSpec) -> PromptTemplate:
    """Load the template of a task's type. Raises `TaskError` if it is missing or broken."""
    return load_template(task.task_type.template, task.task_type.folder or task.folder)


def template_of(task: TaskSpec, route: Route) -> PromptTemplate | None:
    """Return the template that a route renders, or None if it renders nothing.

    It is the task's own template if it has all blocks, else that of the task type.

    Raises:
        TaskError: neither template has all blocks, or a template is missing or broken.
    """
    if not route.renders:
        return None
    template = template_file(task)
    if route.renders <= template.blocks:
        return template
    if template is task.replaced_template:
        missing = " and ".join(sorted(route.renders - template.blocks))
        raise TaskError(f"--template {template.name} lacks the block {missing} of the route {route.name}; add it")
    general = default_template(task)
    for block in sorted(route.renders - general.blocks):
        raise TaskError(
            f"{task.name} takes the route {route.name}, but neither {template.name} nor {general.name} has the block "
            f"{block!r}"
        )
    return general


def check_shown(
    task: TaskSpec, route: Route, example: Example, context: PromptContext, augment: Augmenter | None
) -> None:
    """Raise `TaskError` if no request can be made for an example, or if its prompt leaves out what --augment adds."""
    requests = route.first_requests(example, context)
    model_input = example if augment is None else augment(example)
    if model_input is not example and requests and list(route.first_requests(model_input, context)) == list(requests):
        raise TaskError(
            f"{task.name} takes the route {route.name}, which does not show what --augment adds; show "
            "`inputs.retrieved` in its template, or leave out --augment"
        )


def pool_of(task: TaskSpec, harness: Harness) -> Callable[[], Sequence[Example]]:
    """Return a function that reads the training split on its first call; it returns an empty list if there is none."""
    return cache(lambda: list(harness.examples(task, "train")) if "train" in task.data else [])


def context_of(
    task: TaskSpec,
    route: Route | None,
    template: PromptTemplate | None,
    shots: SolvedExamples,
    config: RunConfig,
    model: Model | None = None,
) -> PromptContext:
    """Return the context of a task for a route; without a model, as for a model without a chat template."""
    is_chat_model = model is not None and model.is_chat_model
    return PromptContext(
        block=_renderer(task, template),
        labels=task.labels,
        settings=settings_of(task, route) if route is not None else {},
        verbalizer=dict(task.verbalizer),
        vocabulary=dict(task.vocabulary),
        shots=shots.before,
        few_shot_answer=task.task_type.few_shot_answer,
        system=config.system_instruction,
        system_as_user=config.system_as_user,
        chat=model.chat if model is not None else None,
        has_room=model.has_room if model is not None else None,
        stop=() if is_chat_model else PARAGRAPH,
        constrain=config.constrain,
        indifferent=model is not None and getattr(model.backend, "indifferent", False),
        max_new_tokens=config.max_new_tokens or max(task.max_new_tokens or SHORT, LONG if is_chat_model else 0),
    )


def settings_of(task: TaskSpec, route: Route) -> dict[str, Any]:
    """Return the settings of a route: the value of the task, else the route's default."""
    return {name: task.settings.get(name, default) for name, default in route.settings.items()}


def _renderer(task: TaskSpec, template: PromptTemplate | None) -> Callable[..., str]:
    """Return a function that renders a block for an example, with `letters` and the labels' `words` as variables."""
    words = [word for label in task.labels for word in task.verbalizer.get(label, (label,))]
    shared = {"letters": LETTERS, "words": words}

    def block(name: str, example: Example, **extra: Any) -> str:
        if template is None:
            raise TaskError(
                f"{task.name}: the route renders the prompt block {name!r} without declaring it; declare it as "
                "`question` or among its `blocks`"
            )
        if [*extra] == ["option"] and (text := template.render_option(name, extra["option"])) is not None:
            return text
        fields = {**variables(example), "language": example.language or task.languages[0], **extra}
        return template.render(name, shared | fields)

    return block
