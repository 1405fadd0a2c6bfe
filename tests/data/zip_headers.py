"""Archives of one member whose headers are changed by hand."""

from __future__ import annotations


def set_header_field(archive: bytes, offset: int, value: int) -> bytes:
    """Return an archive of one member with another value in a field of both of its headers, such as its method."""
    changed = bytearray(archive)
    for header, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        changed[archive.index(header) + offset + shift] = value
    return bytes(changed)
