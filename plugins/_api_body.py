"""Bodies of replies, unpacked here and limited: a few kilobytes of compressed data can be gigabytes of text."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

MAX_BYTES = 1 << 24  # 16 MiB, unpacked
ZLIB_OR_GZIP = zlib.MAX_WBITS | 32
PACKED = {"gzip", "x-gzip", "deflate"}


class BadBody(Exception):
    """The body is too large or wrongly compressed; the message says which."""


class Body:
    """Takes a body piece by piece, as it comes over the wire.

    Raises:
        BadBody: it is packed in a way that was not asked for.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding not in PACKED | {"", "identity"}:
            raise BadBody(f"a body packed as {encoding[:40]!r}, which was not asked for")
        self._unpacker = zlib.decompressobj(ZLIB_OR_GZIP) if encoding in PACKED else None
        self._content = bytearray()

    @property
    def content(self) -> bytes:
        """All that has come, unpacked."""
        return bytes(self._content)

    def feed(self, piece: bytes) -> None:
        """Take a piece. Raises `BadBody` as soon as there is too much, before more is unpacked."""
        room = MAX_BYTES - len(self._content) + 1
        try:
            self._content += piece if self._unpacker is None else self._unpacker.decompress(piece, room)
        except zlib.error as error:
            raise BadBody(f"a body that cannot be decompressed ({error})") from error
        if len(self._content) > MAX_BYTES:
            raise BadBody(f"a body of more than {MAX_BYTES:,} bytes")
