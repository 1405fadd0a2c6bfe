"""The examples that a model has seen: digests of those that it and its ancestors were trained on or chosen on.

`seen.txt` lies beside the weights. Its first line is a JSON header: the scheme of the digests, the models that this one
was trained from (nearest first), those among them whose examples are unknown, the numbers of digests, and their
checksum. Then come the sorted digests of trained and of chosen examples, one per line. The digests of ancestors are
copied, so nothing is lost if their folders are moved or deleted.

Scheme 1: the first 64 bits of a SHA-256, as 16 hexadecimal digits, over the letters and digits of the text in lower
case. A question (`Example.asked`) is digested as a whole, so a pair matches only with both sides. A text that was read
without a question (further pre-training) is digested separately, and matches every question that contains it.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from figeval.errors import TrainError
from figeval.files import expand_user, is_folder
from figeval.jsonfile import parse_json, read_json
from figeval.storage import replace_text
from figeval.types import JSON, Example, Role, letters

FILE = "seen.txt"
DECLARED = "figeval.json"
SCHEME = 1
RESTORE = "restore it, or train the model again"


# ---- digests --------------------------------------------------------------------------------------------------------


class Digests:
    """An immutable set of 64-bit digests, eight bytes each."""

    def __init__(self, values: Iterable[int] = ()) -> None:
        self._sorted = array("Q", sorted(set(values)))

    def __len__(self) -> int:
        return len(self._sorted)

    def __iter__(self) -> Iterator[int]:
        return iter(self._sorted)

    def __contains__(self, value: int) -> bool:
        place = bisect_left(self._sorted, value)
        return place < len(self._sorted) and self._sorted[place] == value

    def __or__(self, other: Digests) -> Digests:
        return Digests((*self, *other)) if len(self) and len(other) else self if len(self) else other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digests) and self._sorted == other._sorted

    def __hash__(self) -> int:
        return hash(self._sorted.tobytes())


def questions(examples: Iterable[Example]) -> Iterator[int]:
    """Yield the digest of each example's question; examples without letters or digits have none."""
    yield from (_digest("question", example.asked) for example in examples if any(map(letters, example.asked)))


def passages(texts: Iterable[str]) -> Iterator[int]:
    """Yield the digest of each text that was read as a passage; texts without letters or digits have none."""
    yield from (_digest("passage", (text,)) for text in texts if letters(text))


def _digest(kind: str, texts: Iterable[str]) -> int:
    content = "\n".join((kind, *map(letters, texts)))
    return int.from_bytes(sha256(content.encode()).digest()[:8], "big")


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
    trained: Digests = field(default_factory=Digests)
    chosen: Digests = field(default_factory=Digests)
    unknown: tuple[str, ...] = ()

    def __or__(self, other: Lineage) -> Lineage:
        """Combine two lineages into that of one model."""
        ancestors = {one.model: one for one in (*other.ancestors, *self.ancestors)}
        order = dict.fromkeys(one.model for one in (*self.ancestors, *other.ancestors))
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
        found = (*questions([example]), *passages(example.asked))
        if any(digest in self.trained for digest in found):
            return "trained"
        return "chosen" if any(digest in self.chosen for digest in found) else None


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
    own = Lineage((Ancestor(model, about),))
    if (folder / FILE).is_file():
        known = read(folder / FILE)
        again = [_found(name, passed) for name in known.unknown]
        late = {name for name, one in zip(known.unknown, again, strict=True) if name not in one.unknown and one.seen}
        found = replace(known, unknown=tuple(name for name in known.unknown if name not in late))
        for one in again:
            found |= replace(one, unknown=())
        return own | found
    return own | Lineage(unknown=(model,)) | _found(origin, passed)


def _found(model: str, passed: frozenset[str]) -> Lineage:
    """Return the lineage of an ancestor that is known only by name; empty for a folder that was visited before."""
    place = expand_user(model)
    if str(place) in passed:
        return Lineage()
    return lineage_of(model, place if is_folder(place) else None, passed)


def about_in(folder: Path) -> JSON:
    """Return the `about` in a model's figeval.json, empty if figeval did not train the model.

    Raises:
        TrainError: the file is damaged.
    """
    file = folder / DECLARED
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
    found = ([file for file in sorted(folder.glob(kind)) if file.is_file()] for kind in ("*.safetensors", "*.bin"))
    files = next(filter(None, found), [])
    digest = sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(file_digest(stream, "sha256").digest())
    return digest.hexdigest() if files else ""


# ---- the file -------------------------------------------------------------------------------------------------------


def write(folder: Path, lineage: Lineage) -> None:
    """Write the lineage of the model in this folder, without the model itself, with all examples that it has seen."""
    body = "".join(f"{digest:016x}\n" for digest in (*lineage.trained, *lineage.chosen))
    header = {
        "scheme": SCHEME,
        "ancestors": [_described(one.identified()) for one in lineage.ancestors],
        "unknown": list(lineage.unknown),
        "trained": len(lineage.trained),
        "chosen": len(lineage.chosen),
        "sha256": sha256(body.encode()).hexdigest(),
    }
    replace_text(folder / FILE, json.dumps(header, ensure_ascii=False) + "\n" + body)


def _described(ancestor: Ancestor) -> JSON:
    found: JSON = {"model": ancestor.model, "about": ancestor.about, "weights": ancestor.weights}
    return {key: value for key, value in found.items() if value}


def read(file: Path) -> Lineage:
    """Read the file that `write` wrote.

    Raises:
        TrainError: the file is damaged, or was written by a later version.
    """
    try:
        first, _, body = file.read_text(encoding="utf-8").partition("\n")
        header: dict[str, Any] = parse_json(first)
        if header["scheme"] != SCHEME:
            raise TrainError(f"{file} has digests of scheme {header['scheme']}; this figeval reads scheme {SCHEME}")
        if header["sha256"] != sha256(body.encode()).hexdigest():
            raise ValueError("its checksum differs")
        digests = [int(line, 16) for line in body.split()]
        ancestors = tuple(
            Ancestor(str(one["model"]), dict(one.get("about", {})), weights=str(one.get("weights", "")))
            for one in header["ancestors"]
        )
        count, unknown = int(header["trained"]), tuple(map(str, header["unknown"]))
        if count < 0 or count + int(header["chosen"]) != len(digests):
            raise ValueError("it does not have as many digests as it declares")
        trained, chosen = Digests(digests[:count]), Digests(digests[count:])
    except (OSError, ArithmeticError, AttributeError, ValueError, KeyError, TypeError) as error:
        cure = "delete it and repeat this model's `figeval train` command, which writes it again"
        raise TrainError(f"{file} is damaged ({error}); {cure}") from error
    return Lineage(ancestors, trained, chosen, unknown)
