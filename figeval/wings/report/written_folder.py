"""Folders of which `figeval board` and `figeval report --figures` replace the files that an earlier call wrote.

A manifest lists these files with their sha256. All others, and those that were changed since, are the user's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from figeval import OptionError, RecordError, check_output
from figeval.io.files import cure, digest_of_file, replacing
from figeval.io.json_files import read_json
from figeval.records.run_folder import own_folder


@dataclass(frozen=True, slots=True)
class WrittenFolder:
    """A kind of folder that figeval writes.

    Attributes:
        writer: the command that writes it, for messages.
        option: the option that names it.
        manifest: name of the file with the list.
        names: names that its files may have, with `/` between folders; others in a manifest are ignored.
        is_shared: whether a folder that no earlier call wrote may have files of the user's.
    """

    writer: str
    option: str
    manifest: str
    names: re.Pattern[str]
    is_shared: bool

    def check(self, folder: Path) -> None:
        """Check that files can be written to a folder.

        Raises:
            OptionError: it is in a folder of a run that only figeval writes; it has files, but no manifest, and is not
                shared.
            RecordError: it cannot be read.
        """
        with cure(folder, self.option):
            check_output(folder / self.manifest, (), self.option)
            if self.is_shared or not folder.is_dir() or (folder / self.manifest).is_file():
                return
            if other := min((file.name for file in folder.iterdir() if not file.name.startswith(".")), default=None):
                raise OptionError(
                    f"{self.option} {folder} has files that {self.writer} did not write, such as {other!r:.80}; "
                    "choose a new or empty folder"
                )

    def replace(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """Write files, and remove those of an earlier call that there are no longer.

        Raises:
            OptionError: as in `check`.
            RecordError: a file of this name was not written by this function, or has been changed since; a file cannot
                be written.
        """
        self.check(folder)
        with cure(folder, self.option):
            folder.mkdir(parents=True, exist_ok=True)
            for parent in {(folder / name).parent for name in files} - {folder}:
                own_folder(parent).mkdir(exist_ok=True)
            earlier = self._earlier_files(folder)
            for name in files:
                if (folder / name).exists() and not _is_unchanged(folder / name, earlier.get(name)):
                    raise RecordError(
                        f"{folder / name} was not written by {self.writer}, or has been changed since; move it away, "
                        f"or choose another folder with {self.option}"
                    )
            written = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
            # Both lists are stored first: a call that is killed leaves no file that the next call would not recognise.
            old_and_new = {name: list(digests) for name, digests in earlier.items()}
            for name, digest in written.items():
                old_and_new.setdefault(name, []).append(digest)
            self._list(folder, old_and_new)
            for name, content in files.items():
                _replace(folder / name, content)
            for name, digests in earlier.items():
                if name not in files and _is_unchanged(folder / name, digests):
                    (folder / name).unlink()
            self._list(folder, {name: [digest] for name, digest in written.items()})

    def _list(self, folder: Path, files: Mapping[str, Sequence[str]]) -> None:
        note = f"Files that {self.writer} wrote, with their sha256. It replaces and removes no others."
        text = json.dumps({"about": note, "files": files}, indent=1, sort_keys=True) + "\n"
        _replace(folder / self.manifest, text.encode())

    def _earlier_files(self, folder: Path) -> dict[str, list[str]]:
        """Return the files of the earlier call with their sha256."""
        file = folder / self.manifest
        if not file.is_file():
            return {}
        content = read_json(file, RecordError, cure=f"delete it with the other files in {folder}")
        files = content.get("files") if isinstance(content, Mapping) else None
        entries = files.items() if isinstance(files, Mapping) else ()
        return {
            name: list(map(str, digests))
            for name, digests in entries
            if self.names.fullmatch(name) and isinstance(digests, list)
        }


SITE = WrittenFolder(
    "`figeval board`",
    "--output",
    "figeval-board.json",
    re.compile(r"(?:runs/)?[0-9A-Za-z][0-9A-Za-z-]*\.(?:html|csv|json)"),
    is_shared=True,
)
FIGURES = WrittenFolder(
    "`figeval report`", "--figures", "figeval-figures.json", re.compile(r"\w[\w.-]*\.(?:svg|pdf)"), is_shared=False
)


def _replace(file: Path, content: bytes) -> None:
    with replacing(file) as stream:
        stream.write(content)


def _is_unchanged(file: Path, digests: Sequence[str] | None) -> bool:
    is_regular = file.is_file() and not file.is_symlink()
    return is_regular and digests is not None and digest_of_file(file).hex() in digests
