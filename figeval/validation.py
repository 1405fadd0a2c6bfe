"""Values checked by pydantic: contents of files as models, and arguments of functions by their annotations.

What pydantic complains about becomes one line here, wherever the value came from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Set
from functools import cache, wraps
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from figeval.errors import FigevalError, OptionError, near
from figeval.text import one_line

M = TypeVar("M", bound=BaseModel)
P = ParamSpec("P")
R = TypeVar("R")

WORDS = {
    bool: "True or False",
    int: "an integer",
    NoneType: "None",
    Path: "a path",
    str: "a string",
    tuple[str, str]: "two strings",
}
PREFIXES = ("Value error, ", "Assertion failed, ")  # which pydantic puts before the message of a validator


# ---- files -----------------------------------------------------------------------------------------------------------


def validated(content: object, name: str, model: type[M], failure: type[FigevalError], *, cure: str = "") -> M:
    """Return the content of a file as a model.

    Args:
        content: what the file holds, of JSON's types.
        name: the name of the file, which begins the message.
        model: the pydantic model.
        failure: the error to raise.
        cure: what the user can do; stands at the end of the message.

    Raises:
        FigevalError: as `failure`, in one line with the most telling mistake.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise failure(f"{name}: {first_problem(error, model)}{cure and f'; {cure}'}") from error


def first_problem(error: Exception, model: type[BaseModel] | None = None) -> str:
    """Return the most telling of pydantic's complaints as `place: message`; of any other error, its message.

    A misspelt key comes before the key that is missing for it.

    Args:
        error: what was raised by validation, or by reading before it.
        model: whose keys are proposed for one that is not known.
    """
    if not isinstance(error, ValidationError):
        return str(error)
    problems = error.errors(include_url=False, include_context=False)
    problem = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    place = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        known = () if model is None else set(known_keys(model))
        return f"unknown key {place!r}{near(str(problem['loc'][-1]), known)}"
    message = without_prefix(problem["msg"])
    return f"{place}: {message}" if place else message


def without_prefix(message: str) -> str:
    """Return a message of pydantic as the validator has written it."""
    for prefix in PREFIXES:
        message = message.removeprefix(prefix)
    return message


def known_keys(model: type[BaseModel]) -> Iterator[str]:
    """Yield the keys of a model and of the models inside it; fields marked `exclude` are not written in files."""
    for name, field in model.model_fields.items():
        if not field.exclude:
            yield name
        for inner in _inside(field.annotation):
            yield from known_keys(inner)


def _inside(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _inside(argument)


# ---- arguments -------------------------------------------------------------------------------------------------------


def checked_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a public function before it is called, by its annotations.

    Parameters that are annotated with a class, with two strings or with a union of these are checked, and converted as
    pydantic does it. All others, and `**options`, are left to the function.

    Raises:
        OptionError: an argument is of another type; the message names it and says what to give.
    """
    signature = inspect.signature(function)

    @cache
    def adapters() -> dict[str, tuple[TypeAdapter[Any], str]]:
        """Return how each parameter is checked, and what to give for it; made when the function is first called."""
        declared = {
            name: parameter.annotation
            for name, parameter in signature.parameters.items()
            if parameter.annotation is not parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        }
        hints = get_type_hints(SimpleNamespace(__annotations__=declared), getattr(function, "__globals__", {}))
        members = {name: get_args(kind) if get_origin(kind) is UnionType else (kind,) for name, kind in hints.items()}
        return {
            name: (TypeAdapter(hints[name], config=ConfigDict(arbitrary_types_allowed=True)), _words(kinds))
            for name, kinds in members.items()
            if all(kind in WORDS or isinstance(kind, type) for kind in kinds)
        }

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # Python says which argument of which function is missing or unknown
        for name, (adapter, words) in adapters().items():
            if name in given.arguments:
                value = given.arguments[name]
                try:
                    if isinstance(value, bytes | Set):  # which pydantic would decode, or put into any order
                        raise TypeError
                    given.arguments[name] = adapter.validate_python(value)
                except (ValidationError, TypeError):
                    raise OptionError(f"{name}={_shown(value)}: give {words}") from None
        return function(*given.args, **given.kwargs)

    return call


def _shown(value: object) -> str:
    """Return a value for a message, in one line; its type where it cannot be shown."""
    try:
        return one_line(repr(value), 80)
    except Exception:
        return f"<{type(value).__name__}>"


def _words(kinds: tuple[Any, ...]) -> str:
    """Return `a Run, a string or a path` for these types."""
    *first, last = [WORDS.get(kind) or f"a {kind.__name__}" for kind in kinds]
    return f"{', '.join(first)} or {last}" if first else last
