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
from figeval.io.text import cleaned
from figeval.models.model import Model
from figeval.records.schema import ModelRecord
from figeval.runs.lineage import line_of, lineage_record

LOCATIONS = ("pretrained", "model")  # options that say where the weights are


class Origin(BaseModel):
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


def origin_of(model: ModelRecord) -> Origin:
    """Return what the record of a model knows; folders are compared only if they still exist."""
    about = model.description.get("about")
    about = about if isinstance(about, dict) else {}
    line = model.lineage.ancestors if model.lineage else []
    older = [one.model for one in line[1:]] + [one.about.get("trained_from") for one in line]
    names = tuple(dict.fromkeys(name for one in (*_names(model), about.get("model")) for name in _known(one)))
    return Origin(
        names=names,
        digests=tuple(one for one in (model.fingerprint, about.get("sha256")) if isinstance(one, str) and one),
        ancestors=tuple(
            dict.fromkeys(
                name for one in (*older, about.get("trained_from")) for name in _known(one) if name not in names
            )
        ),
    )


def _names(model: ModelRecord) -> Iterator[Any]:
    """Yield the names of a model as it was requested, and as an API calls it."""
    yield model.name
    _, _, wanted = model.name.partition(":")
    yield wanted
    yield from (model.options.get(option) for option in LOCATIONS)
    if "base_url" in model.description:  # of an API, which may call the model of a provider `provider/model`
        yield wanted.rpartition("/")[2]
        answered = model.description.get("answered_as")
        yield from answered if isinstance(answered, list) else ()


def _known(name: Any) -> Iterator[str]:
    """Yield a name in lower case, or the absolute path if it is an existing folder."""
    if isinstance(name, str) and name.strip():
        folder = expand_user(name.strip())
        yield str(folder.resolve()) if is_folder(folder) else name.strip().lower()


def kinship(judge: Model, authors: Iterable[str], known: Mapping[str, Origin]) -> dict[str, str]:
    """Return the authors that are the judge or related to it, with a clause that says how.

    Args:
        judge: the judge.
        authors: names of the authors of texts.
        known: author → what its record knows. Others are recognised by their names, to which the identity of the run
            may be added in brackets.
    """
    own = origin_of(
        ModelRecord(
            name=judge.name,
            backend=judge.backend_name,
            options=dict(judge.options),
            fingerprint=judge.fingerprint(),
            description=cleaned(judge.description()),
            lineage=lineage_record(line_of(judge)),
        )
    )
    others = {author: known.get(author) or Origin(names=(author.partition(" (")[0].lower(),)) for author in authors}
    return {author: how for author, one in others.items() if (how := relation(own, one))}


def relation(judge: Origin, author: Origin) -> str:
    """Return a clause on how the author of texts is related to their judge; empty if records know of nothing."""
    if name := _shared(judge.names, author.names):
        return f"is the judge itself, {name}"
    if _shared(judge.digests, author.digests):
        return "has the weights of the judge"
    if name := _shared(author.ancestors, judge.names):
        return f"was trained from the judge, {name}"
    if name := _shared(judge.ancestors, author.names):
        return f"is the model that the judge was trained from, {name}"
    name = _shared(judge.ancestors, author.ancestors)
    return name and f"was trained from {name}, as the judge was"


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    return next((name for name in one if name in other), "")
