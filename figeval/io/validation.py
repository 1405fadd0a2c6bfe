"""Validation by pydantic: contents of files as models, and arguments of functions by their annotations.

Errors of pydantic become one line here, wherever the value came from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cache, wraps
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from figeval.errors import FigevalError, OptionError
from figeval.extras import needed_for
from figeval.extras import require as require  # of wings, too
from figeval.io.files import YAML_SUFFIXES, is_file, path_exists
from figeval.io.text import near, one_line

M = TypeVar("M", bound=BaseModel)
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

WORDS = {
    bool: "True or False",
    int: "an integer",
    NoneType: "None",
    Path: "a path",
    str: "a string",
    tuple[str, str]: "two strings",
}
PREFIXES = ("Value error, ", "Assertion failed, ")  # pydantic puts these before the message of a validator
RULE = "Input should be "  # and begins the messages of its own checks like this
MEMBERS = ("bool", "float", "int", "str")  # the last part of a place, if the value may be of several types


@cache
def type_adapter(kind: type[T]) -> TypeAdapter[T]:
    """Return what checks values of a type; making it for a large dataclass takes as long as a small run."""
    return TypeAdapter(kind)


# ---- files -----------------------------------------------------------------------------------------------------------


def validate(content: object, name: str, model: type[M], failure: type[FigevalError], *, cure: str = "") -> M:
    """Return the content of a file as a model.

    Args:
        content: content of the file, of JSON's types.
        name: name of the file, which begins the message.
        model: the pydantic model.
        failure: class of the error to raise.
        cure: advice for the user, which ends the message.

    Raises:
        FigevalError: as `failure`, in one line with the most telling mistake.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise failure(f"{name}: {first_problem(error, model)}{cure and f'; {cure}'}") from error


def first_problem(error: Exception, model: type[BaseModel] | None = None) -> str:
    """Return the most telling of pydantic's errors as a sentence, or the message of any other error.

    The sentence names the place (`fields.id must be a string`), unless the error is about the content as a whole. A
    misspelt key is reported rather than the key that is missing because of it.

    Args:
        error: exception from validation, or from reading before it.
        model: model whose keys are suggested for an unknown one.
    """
    if not isinstance(error, ValidationError):
        return str(error)
    problem = _most_telling(error)
    loc = problem["loc"]
    location = one_line(".".join(map(str, loc[:-1] if len(loc) > 1 and loc[-1] in MEMBERS else loc)), 200)
    if problem["type"] == "extra_forbidden":
        keys = () if model is None else set(known_keys(model))
        return f"unknown key {location!r}{near(str(loc[-1]), keys)}"
    if problem["type"] == "missing":
        return f"{location} is missing"
    message = one_line(reword_message(problem["msg"]))
    if message.startswith("must "):
        return f"{location or 'it'} {message}"
    return f"{location}: {message}" if location else message


def first_location(error: ValidationError) -> tuple[int | str, ...]:
    """Return the keys that lead to the place of the most telling error; empty if it is about the content as a whole."""
    location: tuple[int | str, ...] = _most_telling(error)["loc"]
    return location


def _most_telling(error: ValidationError) -> Any:
    problems = error.errors(include_url=False, include_context=False)
    return min(problems, key=lambda problem: problem["type"] != "extra_forbidden")


def reword_message(message: str) -> str:
    """Return a message of pydantic without its prefixes, and its `Input should be a valid …` as `must be a …`."""
    for prefix in PREFIXES:
        message = message.removeprefix(prefix)
    if not message.startswith(RULE):
        return message
    rule, _, _ = message.removeprefix(RULE).partition(" or instance of ")
    rule = rule.replace("a valid ", "a ").replace("a integer", "an integer")
    rule = (
        rule.replace("a dictionary", "a mapping")
        .replace("a tuple", "a list")
        .replace("greater than or equal to", "at least")
    )
    return f"must be {rule.replace('less than or equal to', 'at most')}"


def known_keys(model: type[BaseModel]) -> Iterator[str]:
    """Yield the keys of a model and of the models inside it; fields marked `exclude` do not occur in files."""
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

    Parameters that are annotated with a class, with two strings or with a union of these are checked and converted by
    pydantic. All others, and `**options`, are left to the function.

    Raises:
        OptionError: an argument has another type; the message names it and says what to give.
        MissingPackage: the function needs a package of an extra that is not installed.
    """
    signature = inspect.signature(function)

    @cache
    def adapters() -> dict[str, tuple[TypeAdapter[Any], str]]:
        """Return the validator of each parameter and the words for its type; made on the first call."""
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
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # Python's message names the missing or unknown argument
        for name, (adapter, words) in adapters().items():
            if name not in bound.arguments:
                continue
            is_variadic = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            checked = []
            for value in bound.arguments[name] if is_variadic else [bound.arguments[name]]:
                try:
                    if isinstance(value, bytes | Set):  # pydantic would decode the one and order the other
                        raise TypeError
                    checked.append(adapter.validate_python(value))
                except (ValidationError, TypeError):
                    raise OptionError(f"{name}={_show_value(value)}: give {words}") from None
            bound.arguments[name] = tuple(checked) if is_variadic else checked[0]
        with needed_for():
            return function(*bound.args, **bound.kwargs)

    return call


def _show_value(value: object) -> str:
    """Return a value in one line for a message, or its type if it cannot be shown."""
    try:
        return one_line(repr(value), 80)
    except Exception:
        return f"<{type(value).__name__}>"


def _words(kinds: tuple[Any, ...]) -> str:
    """Return a phrase for these types, e.g. `a Run, a string or a path`."""
    *first, last = [WORDS.get(kind) or f"a {kind.__name__}" for kind in kinds]
    return f"{', '.join(first)} or {last}" if first else last


# ---- arguments that may be texts, as on the command line ------------------------------------------------------------


def paths_in(folders: str | Path | Sequence[str | Path], name: str = "include_path") -> tuple[Path, ...]:
    """Return the paths in `a,b`, one path or several of the argument `name`. Raises `OptionError` for anything else."""
    if isinstance(folders, str):
        return split_paths([folders])
    return tuple(map(Path, as_list(folders, str | Path, name, "a path, or a list of paths")))


def split_paths(texts: Iterable[str]) -> tuple[Path, ...]:
    """Return paths, with `a,b` as two unless there is a file or a folder of this name."""
    return tuple(Path(part) for text in texts for part in split_list(text, unless=path_exists))


def split_list(text: str, *, unless: Callable[[str], bool]) -> list[str]:
    """Return the parts of `a,b` without blanks around them; the text as it is if `unless` is true of it."""
    return [text] if unless(text) else [part for part in map(str.strip, text.split(",")) if part]


def as_list(argument: Any, kind: Any, name: str, expected: str) -> list[Any]:
    """Return one value or several of a kind as a list.

    Args:
        argument: the argument.
        kind: class of a value, or a union of classes.
        name: name of the argument, for errors.
        expected: what to give, in words.

    Raises:
        OptionError: it is neither a value nor several.
    """
    from figeval.registry import a_type

    if isinstance(argument, kind):
        return [argument]
    if not isinstance(argument, Iterable) or isinstance(argument, str | bytes):
        raise OptionError(f"{name} is {a_type(argument)}; give {expected}")
    values = list(argument)
    if unexpected := [value for value in values if not isinstance(value, kind)]:
        raise OptionError(f"{name} has {a_type(unexpected[0])}; give {expected}")
    return values


def names_in(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names in `a,b c`, or in several such texts. A task file is one name, whatever its path has."""
    return tuple(
        name
        for text in ([names] if isinstance(names, str) else names)
        for part in split_list(text, unless=_is_task_file)
        for name in ([part] if _is_task_file(part) else part.split())
    )


def _is_task_file(text: str) -> bool:
    return text.endswith(YAML_SUFFIXES) and is_file(Path(text))
