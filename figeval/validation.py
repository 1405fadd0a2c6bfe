"""Contents of files as pydantic models, with the most telling of pydantic's complaints in one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError

from figeval.errors import FigevalError, near

M = TypeVar("M", bound=BaseModel)


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


def _inside(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _inside(argument)
