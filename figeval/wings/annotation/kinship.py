"""Kinship of models: whether a judge is the author of the texts that it judges, or was trained from the same model.

Models tend to prefer their own texts, and names do not tell who they are: the same weights may be called by a folder, a
hub id or the name of a backend. Records also know folders, digests of the weights, the names by which APIs answer, and
what a model was trained from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from figeval.io.files import expand_user, is_folder
from figeval.records.schema import ModelRecord

LOCATIONS = ("pretrained", "model")  # options that say where the weights are


class ModelOrigin(BaseModel):
    """Names, digests and ancestors that tell a model from others.

    Attributes:
        names: its names, in lower case, and folders, as absolute paths.
        digests: digests of its weights, or other fingerprints.
        ancestors: names and folders of the models that it was trained from.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    names: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    ancestors: tuple[str, ...] = ()


def origin_of(model: ModelRecord) -> ModelOrigin:
    """Return what the record of a model knows; folders are compared only if they still exist."""
    facts = model.description.get("about")
    facts = facts if isinstance(facts, dict) else {}
    lineage = model.lineage.ancestors if model.lineage else []
    ancestors = [
        *(ancestor.model for ancestor in lineage[1:]),
        *(ancestor.about.get("trained_from") for ancestor in lineage),
        facts.get("trained_from"),
    ]
    names = _normalize_names([*_names_of(model), facts.get("model")])
    digests = (model.fingerprint, facts.get("sha256"))
    return ModelOrigin(
        names=names,
        digests=tuple(digest for digest in digests if isinstance(digest, str) and digest),
        ancestors=tuple(name for name in _normalize_names(ancestors) if name not in names),
    )


def _names_of(model: ModelRecord) -> Iterator[Any]:
    """Yield the names of a model as it was requested, and as an API calls it."""
    yield model.name
    _, _, argument = model.name.partition(":")
    yield argument
    yield from (model.options.get(option) for option in LOCATIONS)
    if "base_url" in model.description:  # of an API, which may call the model of a provider `provider/model`
        yield argument.rpartition("/")[2]
        answered_as = model.description.get("answered_as")
        yield from answered_as if isinstance(answered_as, list) else ()


def _normalize_names(names: Iterable[Any]) -> tuple[str, ...]:
    """Return the names that are texts in lower case, once each, and existing folders as absolute paths."""
    normalized = []
    for name in names:
        if isinstance(name, str) and name.strip():
            folder = expand_user(name.strip())
            normalized.append(str(folder.resolve()) if is_folder(folder) else name.strip().lower())
    return tuple(dict.fromkeys(normalized))


def kinship(judge: ModelRecord, authors: Iterable[str], origins: Mapping[str, ModelOrigin]) -> dict[str, str]:
    """Return the authors that are the judge or related to it, with a clause that says how.

    Args:
        judge: the record of the judge, with its lineage and its description.
        authors: names of the authors of texts.
        origins: author → what its record knows. Others are recognised by their names, to which the identity of the run
            may be added in brackets.
    """
    origin = origin_of(judge)
    by_name = {author: ModelOrigin(names=(author.partition(" (")[0].lower(),)) for author in authors}
    relations = {author: relation(origin, origins.get(author) or by_name[author]) for author in by_name}
    return {author: clause for author, clause in relations.items() if clause}


def relation(judge: ModelOrigin, author: ModelOrigin) -> str:
    """Return a clause on how the author of texts is related to their judge; empty if records know of nothing."""
    if name := _common_name(judge.names, author.names):
        return f"is the judge itself, {name}"
    if _common_name(judge.digests, author.digests):
        return "has the weights of the judge"
    if name := _common_name(author.ancestors, judge.names):
        return f"was trained from the judge, {name}"
    if name := _common_name(judge.ancestors, author.names):
        return f"is the model that the judge was trained from, {name}"
    name = _common_name(judge.ancestors, author.ancestors)
    return name and f"was trained from {name}, as the judge was"


def _common_name(names: tuple[str, ...], candidates: tuple[str, ...]) -> str:
    return next((name for name in names if name in candidates), "")
