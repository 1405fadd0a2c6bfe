"""Records of a model, and of its lineage: its own training, and those of its ancestors."""

from __future__ import annotations

from functools import reduce
from operator import or_

from figeval.io.files import expand_user, is_folder
from figeval.models.model import Model
from figeval.records.schema import AncestorRecord, LineageRecord, ModelRecord
from figeval.records.seen import Lineage, lineage_of


def line_of(model: Model) -> Lineage:
    """Return the lineage of a model: the model and its ancestors or, for a pipeline, the lineages of all its parts.

    Raises:
        TrainError: the digests in the model's folder are damaged.
    """
    if model.parts:
        return reduce(or_, map(line_of, model.parts))
    folder = expand_user(model.source) if model.source else None
    return lineage_of(model.wanted or model.backend_name, folder if folder is not None and is_folder(folder) else None)


def lineage_record(line: Lineage) -> LineageRecord | None:
    """Return the lineage for the record, or None if figeval trained none of these models."""
    if not any(ancestor.about for ancestor in line.ancestors):
        return None
    return LineageRecord(
        ancestors=[AncestorRecord(model=ancestor.model, about=ancestor.about) for ancestor in line.ancestors],
        trained=len(line.trained),
        chosen=len(line.chosen),
        unknown=list(line.unknown),
    )


def model_record(model: Model, lineage: LineageRecord | None = None) -> ModelRecord:
    """Return the record of a model, without its description."""
    return ModelRecord(
        name=model.name,
        backend=model.backend_name,
        options=dict(model.options),
        capabilities=sorted(model.offers),
        fingerprint=model.fingerprint(),
        lineage=lineage,
    )
