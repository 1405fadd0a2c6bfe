"""One YAML file as one pydantic model, with mistakes told in one line."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources.abc import Traversable
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from figeval.errors import FigevalError, near

M = TypeVar("M", bound=BaseModel)
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(file: Traversable, model: type[M], failure: type[FigevalError]) -> M:
    """The file's content. Raises `failure` naming file, key and, for an unknown key, the nearest known one."""
    return validated(read_mapping(file, failure), str(file), model, failure)


def read_mapping(file: Traversable, failure: type[FigevalError]) -> dict[str, Any]:
    """The keys and values of a file, as they stand there. Raises `failure` if it is no YAML mapping."""
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise failure(f"{file}: not valid YAML ({' '.join(str(error).split())})") from error
    except OSError as error:
        raise failure(f"{file}: cannot be read ({error.strerror})") from error
    if not isinstance(content, dict):
        raise failure(f"{file}: must be a mapping of keys to values")
    return content


def validated(content: dict[str, Any], name: str, model: type[M], failure: type[FigevalError]) -> M:
    """The content as a model. Raises `failure` naming the file and the most telling mistake."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise failure(f"{name}: {first_problem(error, model)}") from error


def first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    """The most telling of pydantic's complaints in one line: a misspelt key before the key that is missing for it."""
    problem = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"unknown key {place!r}{near(str(problem['loc'][-1]), set(known_keys(model)))}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def known_keys(model: type[BaseModel]) -> Iterator[str]:
    """The keys of a model and of the models inside it; fields marked `exclude` are not written in files."""
    for name, field in model.model_fields.items():
        if not field.exclude:
            yield name
        for inner in _inside(field.annotation):
            yield from known_keys(inner)


def _inside(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _inside(argument)
