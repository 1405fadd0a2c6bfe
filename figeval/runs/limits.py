"""The limits of models, routes and tasks: settings without an effect, and examples that a route cannot ask about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from figeval.config import RunConfig
from figeval.errors import CapabilityError, ExampleError, TaskError
from figeval.io.text import near, pluralize
from figeval.models.model import Model
from figeval.prompts import LETTERS, PromptContext
from figeval.runs.harness import Harness
from figeval.spec import TaskSpec
from figeval.spec.survey import CLUSTER, LANGUAGE, Survey
from figeval.task_types.debiasing import in_orders, with_calibration
from figeval.task_types.fitting import with_shots_that_fit
from figeval.task_types.routes import Route
from figeval.task_types.sampling import has_samples, in_samples
from figeval.types import Example

WITHOUT_EFFECT = {  # flag → why it has no effect on routes that render no prompt
    "num_fewshot": "shows no examples",
    "system_instruction": "has no place for a system message",
    "prompts": "shows no prompt",
    "template": "shows no prompt",
}


def apply_flags(task: TaskSpec, route: Route, config: RunConfig, alternatives: Iterable[Route] = ()) -> Route:
    """Return the route, with --calibrate, --orders, --num_fewshot and --samples applied.

    Args:
        task: task.
        route: route that the model takes on it.
        config: config of the run.
        alternatives: routes that the model could take instead.

    Raises:
        CapabilityError: a flag would have no effect on it.
    """
    refused = without_effect(route)
    for flag, reason in refused.items():
        if getattr(config, flag):
            cure = f"leave out --{flag}"
            if flag not in WITHOUT_EFFECT:  # a matter of how the question is asked
                able = [alternative.name for alternative in alternatives if flag not in without_effect(alternative)]
                cure += f", or {f'give --route {task.type}={able[0]}' if able else f'leave {task.name} out of --tasks'}"
            raise CapabilityError(f"{task.name} takes the route {route.name}, which {reason}; {cure}")
    route = with_calibration(route) if config.calibrate else route
    route = in_orders(route, config.orders, config.seed) if config.orders else route
    route = with_shots_that_fit(route) if config.num_fewshot else route
    samples = config_on(route, config).samples
    return in_samples(route, samples) if samples > 1 else route


def config_on(route: Route, config: RunConfig) -> RunConfig:
    """Return the config of the tasks on a route: without --samples where the model writes nothing."""
    return config if has_samples(route) else replace(config, samples=1)


def without_effect(route: Route) -> dict[str, str]:
    """Return the flags that have no effect on a route, and why."""
    refused = {} if route.is_prompted else dict(WITHOUT_EFFECT)
    refused |= {} if "generate" in route.needs else {"reasoning": "has the model write nothing"}
    refused |= {} if route.metrics_of_orders else {"orders": "shows no list of options"}
    refused |= {} if route.compares_words else {"calibrate": "does not compare the probabilities of words"}
    return refused | ({} if route.has_answer_format else {"constrain": "has no format of answers to keep to"})


def check_model(model: Model, config: RunConfig, harness: Harness) -> None:
    """Raise `CapabilityError` if a flag needs a model of another kind."""
    if config.constrain and not getattr(model.backend, "constrains_answers", False):
        able = ", ".join(harness.backends.constraining()) or "none of the installed ones"
        raise CapabilityError(
            f"the answers of {model.name} cannot be constrained; leave out --constrain, or use a model that can: {able}"
        )
    if config.system_as_user and not config.system_instruction:
        raise CapabilityError("--system_as_user needs a system message; give --system_instruction, or leave it out")
    if config.system_as_user and not model.is_chat_model:
        raise CapabilityError(
            f"{model.name} reads the system message and the question as one text; leave out --system_as_user"
        )
    if config.apply_chat_template is True and not model.is_chat_model:
        raise CapabilityError(f"{model.name} has no chat template to apply; leave out --apply_chat_template")
    if config.apply_chat_template is False and model.is_chat_model:
        raise CapabilityError(f"{model.name} accepts chat messages only; leave out --no_chat_template")


def check_samples(
    model: Model, tasks: Sequence[TaskSpec], routes: Sequence[Route], config: RunConfig, harness: Harness
) -> None:
    """Check that --samples gives another answer each time, on at least one of the routes of the tasks.

    Raises:
        CapabilityError: the model writes nothing on these routes, or always the same.
    """
    if config.samples == 1 or not tasks:
        return
    flag, task = f"--samples {config.samples}", tasks[0]
    if not any(map(has_samples, routes)):
        able = [
            route.name for route in harness.routes.of(task.type) if has_samples(route) and route.needs <= model.offers
        ]
        cure = f", or give --route {task.type}={able[0]}" if able else ""
        raise CapabilityError(
            f"{flag}: {task.name} takes the route {routes[0].name}, which has the model write nothing; "
            f"leave out --samples{cure}"
        )
    if not hasattr(model.backend, "do_sample"):
        raise CapabilityError(f"{flag}: {model.name} is not known to sample its answers; leave out --samples")
    if not model.backend.do_sample:
        raise CapabilityError(
            f"{flag}: {model.name} always writes its likeliest answer; set a temperature, such as --model_args "
            "temperature=0.7, or leave out --samples"
        )


def check_room(model: Model, contexts: Iterable[PromptContext], config: RunConfig) -> None:
    """Raise `ModelError` if the budget of --reasoning leaves no room for an answer, as far as that is known."""
    length: int | None = getattr(model.backend, "context_length", None)
    if config.thinking is not None and length is not None:
        for context in contexts:
            config.thinking.check_room(context.max_new_tokens, length)


def unasked_notes(
    route: Route, context: PromptContext, available: Survey, examples: Callable[[], Iterator[Example]]
) -> tuple[str, ...]:
    """Return the warning about examples with more options than the letters that the route shows; none if all have few.

    Raises:
        CapabilityError: the route can ask about none of them.
    """
    if available.most_options <= len(LETTERS):
        return ()
    refusals = [refusal for example in examples() if (refusal := find_refusal(route, context, example))]
    if len(refusals) == available.subset.n:
        raise refusals[0]
    if not refusals:
        return ()
    return (f"{route.name} cannot ask about {pluralize(len(refusals), 'example')}, left out (first: {refusals[0]})",)


def find_refusal(route: Route, context: PromptContext, example: Example) -> ExampleError | None:
    """Return the error of a route that has too few letters for the options of an example, or None if it can ask it."""
    if len(getattr(example, "options", ())) <= len(LETTERS) or not route.renders:
        return None
    try:
        route.first_requests(example, context)
    except ExampleError as refusal:
        return refusal
    return None


def is_askable(route: Route, context: PromptContext, example: Example) -> bool:
    """Return whether a route can ask about an example; `context` shows no other examples."""
    return find_refusal(route, context, example) is None


def check_columns(config: RunConfig, surveys: Sequence[Survey]) -> None:
    """Raise `TaskError` if no task has a column that --by or --stratify names."""
    columns = {key for task_survey in surveys for key in task_survey.meta_keys}
    unknown_columns = [("--by", key, columns) for key in config.by if key not in columns]
    if config.stratify and not any(task_survey.subset.is_stratified for task_survey in surveys):
        unknown_columns.append(("--stratify", config.stratify, (columns | {CLUSTER, LANGUAGE}) - {config.stratify}))
    for flag, key, names in unknown_columns:
        has = ", ".join(sorted(names)) or "no meta columns"
        raise TaskError(f"{flag} {key}: none of these tasks has it{near(key, names)}; they have {has}")
