"""Unit vectors of texts from a frozen embedding model, cached in `FIGEVAL_HOME/indexes` under a digest of their input.

The name of a file is a digest of the model's fingerprint and the texts, so a file never becomes stale, and several
processes may write the same one. It contains little-endian float32 numbers, followed by their digest. Since the folder
may have been filled by somebody else and disks fail, the vectors are recomputed if a file is not valid for the texts.
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
from figeval.frontend import notice
from figeval.io.files import home, read_bytes
from figeval.models.capabilities import ask
from figeval.models.model import Model, open_model
from figeval.runs.harness import Harness
from figeval.types import Text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors: TypeAlias = npt.NDArray[np.float32]

FORMAT = 1  # version of the files; increased whenever the computation changes
DIMENSIONS = 1 << 14  # largest dimension of a vector
BATCH = 128  # texts that are embedded together, and stored at once
PAUSE = 10.0  # seconds between two progress messages
DIGEST = hashlib.sha256().digest_size
TOLERANCE = 1e-3  # largest deviation of a vector's length from 1


@dataclass(frozen=True)
class Retriever:
    """An embedding model of the registry, opened on first use.

    Attributes:
        name: name of the model, as in `--model`.
        harness: registries that provide the model.
        device: device of the model, or None for the fastest one.
    """

    name: str
    harness: Harness
    device: str | None = None

    @cached_property
    def model(self) -> Model:
        """The model.

        Raises:
            ModelError: there is no such model, or it cannot be used without options.
            CapabilityError: it cannot embed texts, or learns from the texts of a task.
        """
        try:
            opened = open_model(self.harness.backends, self.name, {}, {"device": self.device})
        except OptionNeeded as error:
            raise ModelError(
                f"the retriever {self.name}: {error.problem}, and a retriever takes no options; use minilm, or a "
                "folder that sentence-transformers saved"
            ) from error
        if "embed" not in opened.offers:
            raise CapabilityError(f"the retriever {self.name} cannot embed texts; use an encoder such as minilm")
        if hasattr(opened.backend, "fit"):
            raise CapabilityError(
                f"the retriever {self.name} has to be fitted to each task; use an encoder such as minilm"
            )
        return opened

    @cached_property
    def fingerprint(self) -> str:
        """Digest that changes whenever a vector could change."""
        return self.model.fingerprint()

    def digest(self, texts: Sequence[str]) -> str:
        """Return a digest of the model and the texts, in order, as 32 hex digits."""
        hasher = hashlib.sha256(json.dumps([FORMAT, self.fingerprint]).encode())
        for text in texts:
            hasher.update(json.dumps(text).encode() + b"\n")
        return hasher.hexdigest()[:32]

    def vectors(self, texts: Sequence[str], noun: str = "texts") -> Vectors:
        """Return a unit vector for each text, from disk if they were computed before.

        Args:
            texts: texts to embed.
            noun: name of the texts in progress messages.

        Raises:
            CapabilityError: the model cannot embed texts.
            DataError: the vectors cannot be stored, or one of them is zero or not finite.
        """
        file = self._file(texts)
        stored = _read(file, len(texts))
        if stored is None:
            different = list(dict.fromkeys(texts))
            batches = [different[begin : begin + BATCH] for begin in range(0, len(different), BATCH)]
            embedded = self._computed(different) if len(batches) < 2 else self._by_batches(batches, noun)
            indexes = {text: number for number, text in enumerate(different)}
            stored = embedded[[indexes[text] for text in texts]]
            _write(file, stored)
            for batch in batches if len(batches) > 1 else ():
                with suppress(OSError):
                    self._file(batch).unlink()
        return stored

    def _by_batches(self, batches: Sequence[Sequence[str]], noun: str) -> Vectors:
        """Return the vectors of many texts. Each batch is stored at once, so an interrupt loses at most one batch."""
        import numpy as np

        count, done = sum(map(len, batches)), 0
        notice(f"indexing {count} {noun} with {self.name} (once)")
        began = last_notice = time.monotonic()
        blocks = []
        for batch in batches:
            blocks.append(self.vectors(batch))
            done += len(batch)
            if (moment := time.monotonic()) - last_notice > PAUSE:
                last_notice = moment
                notice(f"indexing: {done} of {count} {noun} after {moment - began:.0f} s")
        return np.concatenate(blocks)

    def _file(self, texts: Sequence[str]) -> Path:
        return home() / "indexes" / f"{self.digest(texts)}.f32"

    def _computed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors computed by the model."""
        import numpy as np

        values = ask(self.model.backend, [Text(text) for text in texts]).values
        rows = np.asarray(list(values), dtype=np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not (np.isfinite(rows).all() and (lengths > 0).all()):
            raise DataError(f"the retriever {self.name} returned a zero or non-finite vector; use another one")
        return np.asarray(rows / lengths, dtype=np.float32)


def _read(file: Path, n: int) -> Vectors | None:
    """Return the vectors of n texts, or None if the file does not exist or is not valid."""
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
    vectors: Vectors = np.frombuffer(numbers, dtype="<f4").reshape(n, -1).astype(np.float32)
    with np.errstate(all="ignore"):
        is_unit = np.abs(np.linalg.norm(vectors, axis=1) - 1) < TOLERANCE  # False for NaN
    return vectors if is_unit.all() else None


def _digest(name: str, numbers: bytes) -> bytes:
    """Return the digest that follows the numbers in a file; it covers the numbers and the name of the file."""
    return hashlib.sha256(name.encode() + b"\0" + numbers).digest()


def _write(file: Path, vectors: Vectors) -> None:
    """Write a file atomically, since another process may be writing the same one."""
    numbers = vectors.astype("<f4").tobytes()
    temporary_file: str | None = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary_file = tempfile.mkstemp(dir=file.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as stream:
            stream.write(numbers)
            stream.write(_digest(file.name, numbers))
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary_file).replace(file)
    except OSError as error:
        if temporary_file is not None:
            with suppress(OSError):
                Path(temporary_file).unlink()
        remedy = "remove that folder" if file.is_dir() else "set FIGEVAL_HOME to a writable folder with free space"
        raise DataError(f"cannot write {file} ({error.strerror or error}); {remedy}") from error
