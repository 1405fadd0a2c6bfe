"""Vectors of texts on disk, in a file for each list of texts that was asked for.

A file holds the number of texts, a key for each text, little-endian float32 numbers, and a digest of all this. Its name
is a digest of the model and the keys, so a file never becomes stale, and several processes may write the same one.
Texts of a new list are looked up in the files of other lists: tasks share their stories, and a part of a split is asked
for before the whole. Since the folder may have been filled by somebody else and disks fail, a file that is not valid is
ignored, and its vectors are computed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from figeval.errors import DataError
from figeval.io.files import read_bytes, replacing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors: TypeAlias = npt.NDArray[np.float32]

FORMAT = 2  # version of the files; increased whenever the computation changes
DIMENSIONS = 1 << 14  # largest dimension of a vector
COUNT = 8  # bytes of the number of texts
KEY = 16  # bytes of the key of a text
DIGEST = hashlib.sha256().digest_size
SUFFIX, PART = ".f32", ".part.f32"
TOLERANCE = 1e-3  # largest deviation of a vector's length from 1


@dataclass(frozen=True, slots=True)
class VectorFiles:
    """The files of one model.

    Attributes:
        folder: folder of the files.
        model: text that changes whenever a vector could change.
    """

    folder: Path
    model: str

    def digest(self, texts: Sequence[str]) -> str:
        """Return a digest of the model and the texts, in order, as 32 hex digits."""
        return self._digest_of_keys(list(map(_key, texts)))

    def read(self, texts: Sequence[str]) -> Vectors | None:
        """Return the vectors of a list of texts, or None if its file does not exist or is not valid."""
        content = self._read(self.folder / f"{self.digest(texts)}{SUFFIX}", len(texts))
        return None if content is None else content[1]

    def gather(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of the texts that are in files of other lists."""
        missing = {_key(text): text for text in texts}
        vectors: dict[str, Vectors] = {}
        for file in sorted(self.folder.glob(f"*{SUFFIX}")):
            if not missing:
                break
            if missing.keys().isdisjoint(_keys(file)) or (content := self._read(file)) is None:
                continue
            for key, vector in zip(*content, strict=True):
                if key in missing:
                    vectors[missing.pop(key)] = vector
        return vectors

    def write(self, texts: Sequence[str], vectors: Vectors, *, part: bool = False) -> None:
        """Write a file, or that of a part of a list that is not complete yet. Raises `DataError`.

        It is replaced atomically, since another process may be writing the same one.
        """
        file = self.folder / f"{self.digest(texts)}{PART if part else SUFFIX}"
        content = len(texts).to_bytes(COUNT, "little") + b"".join(map(_key, texts)) + vectors.astype("<f4").tobytes()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(file) as stream:
                stream.write(content)
                stream.write(_digest(file.name, content))
        except OSError as error:
            remedy = "remove that folder" if file.is_dir() else "set FIGEVAL_HOME to a writable folder with free space"
            raise DataError(f"cannot write {file} ({error.strerror or error}); {remedy}") from error

    def remove_parts(self, texts: Sequence[str]) -> None:
        """Remove the files of parts of a list that is complete, also those that an interrupt left behind."""
        keys = set(map(_key, texts))
        for file in self.folder.glob(f"*{PART}"):
            if keys.issuperset(_keys(file)):
                with suppress(OSError):
                    file.unlink()

    def _digest_of_keys(self, keys: Sequence[bytes]) -> str:
        header = json.dumps([FORMAT, self.model]).encode()
        return hashlib.sha256(header + b"\n" + b"".join(keys)).hexdigest()[:32]

    def _read(self, file: Path, n: int | None = None) -> tuple[list[bytes], Vectors] | None:
        """Return the keys and vectors of a file with n texts, or None if it does not exist or is not valid."""
        import numpy as np

        try:
            if file.is_symlink() or not file.is_file():
                return None
            count = len(_keys(file)) if n is None else n
            data = read_bytes(file, DataError, max_bytes=COUNT + (KEY + 4 * DIMENSIONS) * count + DIGEST)
        except (DataError, OSError):
            return None
        content, digest = data[:-DIGEST], data[-DIGEST:]
        begin = COUNT + KEY * count
        numbers = content[begin:]
        is_whole = digest == _digest(file.name, content) and content[:COUNT] == count.to_bytes(COUNT, "little")
        if not (is_whole and count and numbers) or len(numbers) % (4 * count):
            return None
        vectors: Vectors = np.frombuffer(numbers, dtype="<f4").reshape(count, -1).astype(np.float32)
        with np.errstate(all="ignore"):
            lengths = np.linalg.norm(vectors, axis=1)
        is_valid = (np.abs(lengths - 1) < TOLERANCE) | (lengths == 0)  # False for NaN
        keys = _split_keys(content[COUNT:begin])
        is_valid &= file.name.partition(".")[0] == self._digest_of_keys(keys)
        return (keys, vectors) if is_valid.all() else None


def _key(text: str) -> bytes:
    return hashlib.sha256(json.dumps(text).encode()).digest()[:KEY]


def _keys(file: Path) -> list[bytes]:
    """Return the keys of a file without reading its vectors; none if they cannot be read."""
    try:
        if file.is_symlink() or not file.is_file():
            return []
        with file.open("rb") as stream:
            n = int.from_bytes(stream.read(COUNT), "little")
            return _split_keys(stream.read(min(KEY * n, file.stat().st_size)))
    except OSError:
        return []


def _split_keys(content: bytes) -> list[bytes]:
    return [content[begin : begin + KEY] for begin in range(0, len(content), KEY)]


def _digest(name: str, content: bytes) -> bytes:
    """Return the digest at the end of a file; it covers the content and the name of the file."""
    return hashlib.sha256(name.encode() + b"\0" + content).digest()
