"""The examples that a model has seen: digests of those that it and its ancestors were trained on or chosen on.

`seen.txt` lies beside the weights. Its first line is a JSON header: the scheme of the digests, the models that this one
was trained from (nearest first), those among them whose examples are unknown, the numbers of digests, and their
checksum. Then come the sorted digests of trained and of chosen examples and of the parts of both, one per line, as 16
hexadecimal digits (`digests`). The digests of ancestors are copied, so nothing is lost if their folders are moved or
deleted.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from figeval.errors import TrainError
from figeval.io.files import digest_of_file, expand_user, is_folder, replace_text
from figeval.io.json_files import parse_json, read_json
from figeval.records.digests import Digests, Question, SeenTexts
from figeval.types import JSON, Example, Role

FILE = "seen.txt"
MODEL_FILE = "figeval.json"
SCHEME = 2
SETS = ("trained", "chosen", "trained_parts", "chosen_parts")  # numbers of digests in the header, in order
RESTORE = "restore it, or train the model again"


# ---- ancestors ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A model in the lineage of another: the name that was asked for, and the `about` of its figeval.json.

    A model that figeval did not train has no `about`. If it is a folder, the digest of its weights distinguishes it
    from another model of the same name; `weights` keeps the digest, because the folder may be deleted.
    """

    model: str
    about: JSON = field(default_factory=dict)
    folder: Path | None = None
    weights: str = ""

    def identified(self) -> Ancestor:
        """Return the ancestor with the digest of its weights if they are available, which reads all of them."""
        if self.about or self.weights or self.folder is None:
            return self
        return replace(self, weights=weights_in(self.folder))


@dataclass(frozen=True, slots=True)
class Lineage:
    """A model and its ancestors, nearest first, with the examples that they were trained on and chosen on.

    `unknown` names the trained models in the lineage whose examples are unknown.
    """

    ancestors: tuple[Ancestor, ...] = ()
    trained: SeenTexts = field(default_factory=SeenTexts)
    chosen: SeenTexts = field(default_factory=SeenTexts)
    unknown: tuple[str, ...] = ()

    @classmethod
    def of_questions(cls, trained: Iterable[Example], chosen: Iterable[Example]) -> Lineage:
        return cls((), SeenTexts.of_questions(trained), SeenTexts.of_questions(chosen))

    @classmethod
    def of_passages(cls, trained: Iterable[str], chosen: Iterable[str]) -> Lineage:
        """Return the lineage of a model that read these texts without questions."""
        return cls((), SeenTexts.of_passages(trained), SeenTexts.of_passages(chosen))

    def __or__(self, other: Lineage) -> Lineage:
        """Combine two lineages into that of one model."""
        ancestors = {ancestor.model: ancestor for ancestor in (*other.ancestors, *self.ancestors)}
        order = dict.fromkeys(ancestor.model for ancestor in (*self.ancestors, *other.ancestors))
        return Lineage(
            tuple(ancestors[name] for name in order),
            self.trained | other.trained,
            self.chosen | other.chosen,
            tuple(dict.fromkeys((*self.unknown, *other.unknown))),
        )

    @property
    def seen(self) -> bool:
        """True if any example is known to have been seen."""
        return bool(len(self.trained) or len(self.chosen))

    def role(self, example: Example) -> Role | None:
        """Return how the example was seen, or None; "trained" if it was both trained on and chosen on."""
        question = Question(example.asked)
        if self.trained.know(question):
            return "trained"
        return "chosen" if self.chosen.know(question) else None


def lineage_of(model: str, folder: Path | None, passed: frozenset[str] = frozenset()) -> Lineage:
    """Return the lineage of a model; `folder` is None for a model without one (a registered name, a hub id).

    A folder that an older figeval trained has no digests. The model is then `unknown`, and its ancestors are looked up
    by the names in its figeval.json. `passed` are the folders already visited, which guards against cycles.

    Raises:
        TrainError: the digests in the folder are damaged, or have a scheme that this figeval does not know.
    """
    about = {} if folder is None else about_in(folder)
    origin = str(about.get("trained_from") or "")
    if not origin or folder is None:
        return Lineage((Ancestor(model, folder=folder),))
    passed |= {str(folder)}
    model_alone = Lineage((Ancestor(model, about),))
    if (folder / FILE).is_file():
        stored_lineage = read(folder / FILE)
        late_lineages = [_lineage_by_name(name, passed) for name in stored_lineage.unknown]
        late = {
            name
            for name, lineage in zip(stored_lineage.unknown, late_lineages, strict=True)
            if name not in lineage.unknown and lineage.seen
        }
        ancestry = replace(stored_lineage, unknown=tuple(name for name in stored_lineage.unknown if name not in late))
        for lineage in late_lineages:
            ancestry |= replace(lineage, unknown=())
        return model_alone | ancestry
    return model_alone | Lineage(unknown=(model,)) | _lineage_by_name(origin, passed)


def _lineage_by_name(model: str, passed: frozenset[str]) -> Lineage:
    """Return the lineage of an ancestor that is known only by name; empty for a folder that was visited before."""
    path = expand_user(model)
    if str(path) in passed:
        return Lineage()
    return lineage_of(model, path if is_folder(path) else None, passed)


def about_in(folder: Path) -> JSON:
    """Return the `about` in a model's figeval.json, empty if figeval did not train the model.

    Raises:
        TrainError: the file is damaged.
    """
    file = folder / MODEL_FILE
    if not file.is_file():
        return {}
    declared = read_json(file, TrainError, cure=RESTORE)
    if not isinstance(declared, dict):
        raise TrainError(f"{file} does not contain a JSON object; {RESTORE}")
    about = declared.get("about")
    if about is None:
        return {}
    if not isinstance(about, dict):
        raise TrainError(f"{file}: `about` is not a JSON object; {RESTORE}")
    for name in ("task", "probe", "trained_from"):
        if not isinstance(about.get(name), str | None):
            raise TrainError(f"{file}: `about.{name}` is not a text; {RESTORE}")
    if not isinstance(about.get("augment"), dict | None):
        raise TrainError(f"{file}: `about.augment` is not a JSON object; {RESTORE}")
    return about


def weights_in(folder: Path) -> str:
    """Return a digest of a model's weights, or "" if there are none."""
    file_lists = ([file for file in sorted(folder.glob(kind)) if file.is_file()] for kind in ("*.safetensors", "*.bin"))
    files = next(filter(None, file_lists), [])
    digest = sha256()
    for file in files:
        digest.update(digest_of_file(file))
    return digest.hexdigest() if files else ""


# ---- the file -------------------------------------------------------------------------------------------------------


def write(folder: Path, lineage: Lineage) -> None:
    """Write the lineage of the model in this folder, without the model itself, with all examples that it has seen."""
    sets = dict(zip(SETS, _sets(lineage), strict=True))
    body = "".join(f"{digest:016x}\n" for part in sets.values() for digest in part)
    header = {
        "scheme": SCHEME,
        "ancestors": [_ancestor_json(ancestor.identified()) for ancestor in lineage.ancestors],
        "unknown": list(lineage.unknown),
        **{name: len(part) for name, part in sets.items()},
        "sha256": sha256(body.encode()).hexdigest(),
    }
    replace_text(folder / FILE, json.dumps(header, ensure_ascii=False) + "\n" + body)


def _sets(lineage: Lineage) -> tuple[Digests, ...]:
    return lineage.trained.whole, lineage.chosen.whole, lineage.trained.parts, lineage.chosen.parts


def _ancestor_json(ancestor: Ancestor) -> JSON:
    content: JSON = {"model": ancestor.model, "about": ancestor.about, "weights": ancestor.weights}
    return {key: value for key, value in content.items() if value}


def read(file: Path) -> Lineage:
    """Read the file that `write` wrote.

    Raises:
        TrainError: the file is damaged, or was written by a later version.
    """
    try:
        first, _, body = file.read_text(encoding="utf-8").partition("\n")
        header: dict[str, Any] = parse_json(first)
        if header["scheme"] not in range(1, SCHEME + 1):
            raise TrainError(f"{file} has digests of scheme {header['scheme']}; this figeval reads up to {SCHEME}")
        if header["sha256"] != sha256(body.encode()).hexdigest():
            raise ValueError("its checksum differs")
        digests = array("Q", bytes.fromhex(body))
        if sys.byteorder == "little":
            digests.byteswap()
        ancestors = tuple(
            Ancestor(str(ancestor["model"]), dict(ancestor.get("about", {})), weights=str(ancestor.get("weights", "")))
            for ancestor in header["ancestors"]
        )
        unknown = tuple(map(str, header["unknown"]))
        counts = [int(header[name]) for name in SETS[: 2 if header["scheme"] == 1 else None]]
        if min(counts) < 0 or sum(counts) != len(digests):
            raise ValueError("it does not have as many digests as it declares")
        ends = [*accumulate(counts, initial=0), *[len(digests)] * 2]
        sets = (Digests(digests[begin:end]) for begin, end in pairwise(ends[:5]))
        trained, chosen, trained_parts, chosen_parts = sets
    except (OSError, ArithmeticError, AttributeError, ValueError, KeyError, TypeError) as error:
        cure = "delete it and repeat this model's `figeval train` command, which writes it again"
        raise TrainError(f"{file} is damaged ({error}); {cure}") from error
    return Lineage(ancestors, SeenTexts(trained, trained_parts), SeenTexts(chosen, chosen_parts), unknown)
