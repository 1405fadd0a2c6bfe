"""Unit vectors of texts by a frozen embedding model, kept in `FIGEVAL_HOME/indexes` under a digest of their content.

A file there is named by the fingerprint of the model and the texts, so it never becomes stale. Several processes may
write the same one. It holds little-endian float32 numbers, then their digest. The folder may have been filled by
somebody else, and disks fail: where a file is not what the texts need, the vectors are computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from figeval.errors import CapabilityError, DataError, ModelError, OptionNeeded
from figeval.evaluation.harness import Harness
from figeval.files import home, read_bytes
from figeval.frontend import notice
from figeval.models.capabilities import ask
from figeval.models.model import Model, open_model
from figeval.types import Text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors: TypeAlias = npt.NDArray[np.float32]

FORMAT = 1  # of the files; raised when what is computed changes
DIMENSIONS = 1 << 14  # of a vector, at most
BATCH = 128  # texts that are handed to the model together, and kept as soon as it has answered
PAUSE = 10.0  # seconds between two lines about how far it is
DIGEST = hashlib.sha256().digest_size
TOLERANCE = 1e-3  # of the length of a unit vector


@dataclass(frozen=True)
class Retriever:
    """An embedding model of the registry, opened when its vectors are first asked for.

    Attributes:
        name: as in `--model`.
        harness: knows the models.
        device: where it runs; the fastest device by default.
    """

    name: str
    harness: Harness
    device: str | None = None

    @cached_property
    def model(self) -> Model:
        """The model.

        Raises:
            ModelError: there is none, or it cannot be used without options.
            CapabilityError: it cannot embed texts, or learns from the texts of a task.
        """
        try:
            opened = open_model(self.harness.backends, self.name, {}, {"device": self.device})
        except OptionNeeded as error:
            raise ModelError(
                f"the retriever {self.name}: {error.problem}, and a retriever takes no options; take minilm, or a "
                "folder that sentence-transformers saved"
            ) from error
        if "embed" not in opened.offers:
            raise CapabilityError(f"the retriever {self.name} cannot embed texts; take an encoder such as minilm")
        if hasattr(opened.backend, "fit"):
            raise CapabilityError(f"the retriever {self.name} learns from each task; take an encoder such as minilm")
        return opened

    @cached_property
    def fingerprint(self) -> str:
        """Digest that changes whenever a vector could."""
        return self.model.fingerprint()

    def digest(self, texts: Sequence[str]) -> str:
        """Return 32 hex digits over the model and the texts in order."""
        told = hashlib.sha256(json.dumps([FORMAT, self.fingerprint]).encode())
        for text in texts:
            told.update(json.dumps(text).encode() + b"\n")
        return told.hexdigest()[:32]

    def vectors(self, texts: Sequence[str], what: str = "texts") -> Vectors:
        """Return a unit vector for each text, from the disk if they were computed before.

        Args:
            texts: to embed.
            what: they are, for the lines about work that takes long.

        Raises:
            CapabilityError: the model cannot embed texts.
            DataError: the vectors cannot be kept, or one of them is not a number or zero.
        """
        file = self._file(texts)
        stored = _read(file, len(texts))
        if stored is None:
            different = list(dict.fromkeys(texts))
            batches = [different[begin : begin + BATCH] for begin in range(0, len(different), BATCH)]
            embedded = self._computed(different) if len(batches) < 2 else self._by_batches(batches, what)
            place = {text: number for number, text in enumerate(different)}
            stored = embedded[[place[text] for text in texts]]
            _write(file, stored)
            for batch in batches if len(batches) > 1 else ():
                with suppress(OSError):
                    self._file(batch).unlink()
        return stored

    def _by_batches(self, batches: Sequence[Sequence[str]], what: str) -> Vectors:
        """Return the vectors of many texts. Those of a batch are kept at once: an interrupt loses one batch at most."""
        import numpy as np

        count, done = sum(map(len, batches)), 0
        notice(f"indexing {count} {what} with {self.name} (once)")
        began = said = time.monotonic()
        found = []
        for batch in batches:
            found.append(self.vectors(batch))
            done += len(batch)
            if (now := time.monotonic()) - said > PAUSE:
                said = now
                notice(f"indexing: {done} of {count} {what} after {now - began:.0f} s")
        return np.concatenate(found)

    def _file(self, texts: Sequence[str]) -> Path:
        return home() / "indexes" / f"{self.digest(texts)}.f32"

    def _computed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts."""
        import numpy as np

        values = ask(self.model.backend, [Text(text) for text in texts]).values
        rows = np.asarray(list(values), dtype=np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not (np.isfinite(rows).all() and (lengths > 0).all()):
            raise DataError(f"the retriever {self.name} gives a text no vector; take another one")
        return np.asarray(rows / lengths, dtype=np.float32)


def _read(file: Path, n: int) -> Vectors | None:
    """Return the vectors of n texts; None where the file is not there, or holds something else."""
    import numpy as np

    if file.is_symlink() or not file.is_file():
        return None
    try:
        data = read_bytes(file, DataError, max_bytes=4 * n * DIMENSIONS + DIGEST)
    except DataError:
        return None
    numbers, digest = data[:-DIGEST], data[-DIGEST:]
    if digest != _digest(file.name, numbers) or not numbers or len(numbers) % (4 * n):
        return None
    found: Vectors = np.frombuffer(numbers, dtype="<f4").reshape(n, -1).astype(np.float32)
    with np.errstate(all="ignore"):
        is_unit = np.abs(np.linalg.norm(found, axis=1) - 1) < TOLERANCE  # false where one is not a number
    return found if is_unit.all() else None


def _digest(name: str, numbers: bytes) -> bytes:
    """Return the digest behind the numbers: of these, and of the name of the file that they belong into."""
    return hashlib.sha256(name.encode() + b"\0" + numbers).digest()


def _write(file: Path, vectors: Vectors) -> None:
    """Write all or nothing; another process may be writing the same."""
    numbers = vectors.astype("<f4").tobytes()
    made: str | None = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=file.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as stream:
            stream.write(numbers)
            stream.write(_digest(file.name, numbers))
            stream.flush()
            os.fsync(stream.fileno())
        Path(made).replace(file)
    except OSError as error:
        if made is not None:
            with suppress(OSError):
                Path(made).unlink()
        place = "remove that folder" if file.is_dir() else "set FIGEVAL_HOME to a folder of yours with free space"
        raise DataError(f"cannot write {file} ({error.strerror or error}); {place}") from error
