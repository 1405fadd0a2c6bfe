"""Data sets of the hub → rows: from folders, from caches as the hub's client lays them out, and from a hub."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from figeval import DataContext, DataError
from figeval.testing import harness
from tests.loopback import answering

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROWS = [{"id": "F01", "label": "a"}, {"id": "F02", "label": "b"}]


def parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()
CARD = b"""---
configs:
- config_name: en
  data_files:
  - {split: train, path: en/train.parquet}
  - {split: test, path: "en/test-*.parquet"}
- config_name: de
  data_files: de.jsonl
- config_name: outside
  data_files: "../../../../*/outside.jsonl"
- config_name: pictures
  data_files: "*.png"
dataset_info:
- config_name: de
  splits: [{name: train, num_examples: 3}]
---
"""
FILES = {
    "README.md": CARD,
    "en/train.parquet": parquet([{"id": "T01", "label": "a"}]),
    "en/test-00000-of-00002.parquet": parquet(ROWS[:1]),
    "en/test-00001-of-00002.parquet": parquet(ROWS[1:]),
    "de.jsonl": LINES,
    "a.png": b"\x89PNG",
}
REQUESTED = AssertionError("nothing is downloaded")


def read(
    path: str, copies: Mapping[str, Path] | None = None, notes: dict[str, Any] | None = None
) -> list[Mapping[str, Any]]:
    def refuse(benchmark: str, path: str) -> Path:
        raise REQUESTED

    folders = [folder for name, folder in (copies or {}).items() if path.startswith(name)]
    context = DataContext(Path(), refuse, {} if notes is None else notes, lambda _name: folders)
    return list(harness().readers.get("hub")(path, context))


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def cache(hub_cache: Path) -> Path:
    """A cache of the hub with `acme/figs`, of which configuration `en` lacks the split `train`."""
    folder = hub_cache / "datasets--acme--figs"
    write_files(folder, {"refs/main": COMMIT.encode(), "refs/v1": COMMIT.encode()})
    for name, content in FILES.items():
        if name != "en/train.parquet":
            blob = folder / "blobs" / hashlib.sha256(content).hexdigest()
            write_files(blob.parent, {blob.name: content})
            link = folder / "snapshots" / COMMIT / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(blob)
    return folder


@pytest.mark.parametrize("path", ["acme/figs#en/test", "acme/figs@v1#en/test", f"acme/figs@{COMMIT}#en/test"])
def test_a_cache_needs_no_network(cache: Path, path: str) -> None:
    notes: dict[str, Any] = {}
    assert read(path, notes=notes) == ROWS
    files = {name: hashlib.sha256(FILES[name]).hexdigest() for name in FILES if name.startswith("en/test")}
    about = {"dataset": "acme/figs", "revision": COMMIT, "config": "en", "split": "test", "files": files}
    assert notes == {"hub": about}


REFUSED = {
    "acme/figs#fr/test": "has no configuration 'fr'; they are en, de, outside, pictures",
    "acme/figs#test": "has several configurations; they are en, de, outside, pictures",
    "acme/figs#en/dev": "has no split 'dev'",
    "acme/figs#de/train": "has 2 rows, but should have 3; copy or download it again",
    "acme/figs#outside/train": "names files outside of the data set",
    "acme/figs#pictures/train": "is no table, but of the kind imagefolder; figeval reads arrow, csv, json",
    "acme/../figs#test": "is no address of a data set on the hub; write hub:OWNER/NAME#SPLIT",
    "acme/figs/en#test": "is no address of a data set on the hub",
    "acme/figs@../../x#test": "is no address of a data set on the hub",
    "": "is no address of a data set on the hub",
}


@pytest.mark.parametrize("path", REFUSED)
def test_refused(tmp_path: Path, path: str) -> None:
    folder = write_files(tmp_path / "a" / "b" / "c" / "figs", FILES)
    write_files(tmp_path / "a", {"outside.jsonl": LINES})
    with pytest.raises(DataError, match=re.escape(REFUSED[path])) as caught:
        read(path, {"": folder})
    assert "\n" not in str(caught.value)


LAYOUTS: dict[str, dict[str, bytes]] = {
    "data/test-00000-of-00001.parquet": {"data/test-00000-of-00001.parquet": parquet(ROWS)},
    "test.csv": {"test.csv": b"id,label\nF01,a\nF02,b\n", "train.csv": b"id,label\nT01,a\n"},
    "test.tsv": {"test.tsv": b"id\tlabel\nF01\ta\nF02\tb\n"},
    "test.jsonl.gz": {"test.jsonl.gz": gzip.compress(LINES)},
    "test.json": {"test.json": json.dumps(ROWS).encode()},
    "data_dir": {"README.md": b"---\nconfigs:\n- {config_name: x, data_dir: en}\n---\n", "en/test.jsonl": LINES},
    "separator": {
        "README.md": b"---\nconfigs:\n- {config_name: x, data_files: [{split: test, path: a.csv}], sep: ';'}\n---\n",
        "a.csv": b"id;label\nF01;a\nF02;b\n",
    },
    "default": {
        "README.md": b"---\nconfigs:\n- {config_name: y, data_files: y.jsonl}\n"
        b"- {config_name: x, default: true, data_files: [{split: test, path: [x.jsonl]}]}\n---\n",
        "x.jsonl": LINES,
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_stands_for_the_data_set(tmp_path: Path, layout: str) -> None:
    folder = write_files(tmp_path / "figs", LAYOUTS[layout])
    notes: dict[str, Any] = {}
    assert read("acme/figs#test", {"acme/figs": folder}, notes) == ROWS
    assert "revision" not in notes["hub"]


def test_a_missing_shard_is_no_shorter_split(cache: Path) -> None:
    (cache / "snapshots" / COMMIT / "en" / "test-00001-of-00002.parquet").unlink()
    with pytest.raises(AssertionError, match="nothing is downloaded"):
        read("acme/figs#en/test")
    with pytest.raises(DataError, match="has 1 of 2 files of the split; copy them all"):
        read("acme/figs#en/test", {"acme/figs": cache / "snapshots" / COMMIT})


ROWS_CARD = b"---\nconfigs:\n- {config_name: x, data_files: [{split: test, path: 'rows/*.jsonl'}]}\n---\n"
PART, REST = {"rows/a.jsonl": LINES[: len(LINES) // 2]}, {"rows/b.jsonl": LINES[len(LINES) // 2 :]}
ZIPPED = io.BytesIO()
with zipfile.ZipFile(ZIPPED, "w") as archive:
    archive.writestr("rows.jsonl", LINES)


def tree_note(*names: str) -> Mapping[str, bytes]:
    """Return the note of the hub's client on the files of the commit."""
    files = {name: {"size": 1, "blob_id": ""} for name in (".gitattributes", "README.md", *names)}
    return {f"trees/{COMMIT}.json": json.dumps({"format_version": 1, "files": files}).encode()}


CACHES: dict[str, tuple[Mapping[str, bytes], Mapping[str, bytes], bool]] = {  # snapshot, other files, is it complete
    "part of a pattern": ({"README.md": ROWS_CARD, **PART}, tree_note(*PART, *REST), False),
    "all of a pattern": ({"README.md": ROWS_CARD, **PART, **REST}, tree_note(*PART, *REST), True),
    "no list of files": ({"README.md": ROWS_CARD, **PART, **REST}, {}, True),
    "card not downloaded": ({"test.jsonl": LINES}, {}, False),
    "archive": (
        {"README.md": ROWS_CARD.replace(b"jsonl", b"zip"), "rows/a.zip": ZIPPED.getvalue()},
        tree_note("rows/a.zip"),
        True,
    ),
    "no card on the hub": ({"test.jsonl": LINES}, {f".no_exist/{COMMIT}/README.md": b""}, True),
}


@pytest.mark.parametrize("content", CACHES)
def test_a_cache_that_lacks_files_is_no_shorter_split(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a download by patterns, or one that was interrupted, leaves it."""
    if "trees" in str(CACHES[content]) and not hasattr(huggingface_hub, "get_cached_repo_tree"):
        pytest.skip("older releases of the hub's client note no list of files")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot, notes, is_complete = CACHES[content]
    files = {f"snapshots/{COMMIT}/{name}": data for name, data in snapshot.items()}
    write_files(tmp_path / "datasets--acme--figs", {"refs/main": COMMIT.encode(), **files, **notes})
    if is_complete:
        assert read("acme/figs#test") == ROWS
    else:
        with pytest.raises(AssertionError, match=str(REQUESTED)):
            read("acme/figs#test")


@pytest.mark.parametrize("kind", ["lines", "nested", "zip", "members", "long line", "parquet", "arrow"])
def test_limits_are_those_of_other_files(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`datasets` has none: it would unpack all of these into memory."""
    monkeypatch.setattr("figeval.data.archives.RATIO_FROM_BYTES", 1 << 16)
    monkeypatch.setattr("figeval.data.text_files.MAX_JSON_BYTES", 1 << 12)
    files, message = _beyond_limits(kind)
    folder = write_files(tmp_path / "figs", files)
    with pytest.raises(DataError, match=message) as caught:
        read("acme/figs#test", {"acme/figs": folder})
    assert "\n" not in str(caught.value)


def _beyond_limits(kind: str) -> tuple[dict[str, bytes], str]:
    if kind in ("parquet", "arrow"):
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * 9), pa.array(["a" * 1000]))
        table = pa.table({"texts": pa.array([texts.to_pylist() * 1200])})
        sink = io.BytesIO()
        if kind == "parquet":
            pq.write_table(table, sink)
        else:
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        return {f"test.{kind}": sink.getvalue()}, "a row of more than 1,000,000 bytes"
    rows = LINES * 3000
    zip_file = io.BytesIO()
    with zipfile.ZipFile(zip_file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jsonl", LINES if kind == "members" else rows)
        archive.writestr("b.jsonl", gzip.compress(LINES))
    return {
        "lines": ({"test.jsonl.gz": gzip.compress(rows)}, "unpacks to more than"),
        "nested": ({"test.jsonl.gz": gzip.compress(gzip.compress(LINES))}, "holds another packed file"),
        "zip": ({"test.zip": zip_file.getvalue()}, "unpacks to more than"),
        "members": ({"test.zip": zip_file.getvalue()}, "holds another packed file"),
        "long line": ({"test.jsonl.gz": gzip.compress(json.dumps({"a": "b" * 5000}).encode())}, "a line of more than"),
    }[kind]


def test_code_of_a_data_set_is_not_run(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "figs", {"figs.py": b"raise SystemExit('run')", "test.jsonl": LINES})
    with pytest.raises(DataError, match="scripts are no longer supported"):
        read("acme/figs#test", {"acme/figs": folder})


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "figs", {"test.parquet": parquet(ROWS)[:-9]})
    with pytest.raises(DataError, match=r"test\.parquet cannot be read") as caught:
        read("acme/figs#test", {"acme/figs": folder})
    assert "\n" not in str(caught.value)


HOSTILE_CARDS = {
    "aliases": "a0: &a0 [x, x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(12)),
    "nesting": f"a: {'[' * 5000}{']' * 5000}\n",
    "tags": "a: !!python/object/apply:os.system [exit]\n",
}


@pytest.mark.parametrize("kind", HOSTILE_CARDS)
def test_metadata_beyond_limits_are_refused(tmp_path: Path, kind: str) -> None:
    card = f"---\n{HOSTILE_CARDS[kind]}---\n".encode()
    folder = write_files(tmp_path / "figs", {"README.md": card, "test.jsonl": LINES})
    with pytest.raises(DataError, match="the metadata cannot be read") as caught:
        read("acme/figs#test", {"acme/figs": folder})
    assert "\n" not in str(caught.value)


def test_a_number_of_rows_that_is_none_is_not_checked(tmp_path: Path) -> None:
    card = b"---\ndataset_info: {splits: [{name: test, num_examples: many}]}\n---\n"
    folder = write_files(tmp_path / "figs", {"README.md": card, "test.jsonl": LINES})
    assert read("acme/figs#test", {"acme/figs": folder}) == ROWS


def test_links_out_of_a_copy_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"secret.jsonl": LINES})
    folder = write_files(tmp_path / "figs", {"train.jsonl": LINES})
    (folder / "test.jsonl").symlink_to(tmp_path / "secret.jsonl")
    with pytest.raises(DataError, match=r"leads out of .*--allow_external_files"):
        read("acme/figs#test", {"acme/figs": folder})
    monkeypatch.setenv("FIGEVAL_ALLOW_EXTERNAL_FILES", "1")
    assert read("acme/figs#test", {"acme/figs": folder}) == ROWS


# ---- a hub -----------------------------------------------------------------------------------------------------------


class Hub(ThreadingHTTPServer):
    """A hub with one data set, as far as its client asks for it; `status` is its answer to everything if not 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.code, self.requests = 200, "", 0


class _Answer(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_arguments: object) -> None:
        pass

    def answer(self) -> None:
        self.server.requests += 1
        path = unquote(urlsplit(self.path).path)
        _, _, rest = path.partition("/acme/figs")
        kind, _, rest = rest.strip("/").partition("/")
        revision, _, name = rest.partition("/")
        if self.server.status != 200:
            self.send(b"", self.server.status, self.server.code)
        elif "/acme/figs" not in path:
            self.send(b"", 404, "RepoNotFound")
        elif kind and revision not in ("main", COMMIT):
            self.send(b"", 404, "RevisionNotFound")
        elif kind in ("", "revision"):
            siblings = [{"rfilename": name} for name in FILES]
            self.send(json.dumps({"id": "acme/figs", "sha": COMMIT, "siblings": siblings}).encode())
        elif kind == "tree":
            recursive = "recursive=true" in self.path.lower()
            self.send(json.dumps(list(self.tree(f"{name}/".lstrip("/"), recursive))).encode())
        elif name in FILES:
            self.send(FILES[name])
        else:
            self.send(b"", 404, "EntryNotFound")

    do_GET = do_HEAD = do_POST = answer

    def tree(self, folder: str, recursive: bool) -> list[dict[str, Any]]:
        paths = [name.removeprefix(folder) for name in FILES if name.startswith(folder)]
        names = set(paths if recursive else [path.split("/")[0] for path in paths])
        return [
            {"type": "file", "path": path, "oid": "0" * 40, "size": len(FILES[path])}
            if (path := folder + name) in FILES
            else {"type": "directory", "path": path, "oid": "0" * 40}
            for name in sorted(names)
        ]

    def send(self, body: bytes, status: int = 200, code: str = "") -> None:
        self.send_response(status)
        etag = hashlib.sha1(body).hexdigest()
        headers = {"X-Error-Code": code, "X-Repo-Commit": COMMIT, "ETag": f'"{etag}"', "Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


TASK = """
name: figs
type: pairs
labels: [a, b]
data: {{test: "{address}"}}
fields: {{id: row.id, left: row.id, right: row.id, label: row.label}}
"""


@pytest.mark.slow
def test_a_hub_is_asked_once(tmp_path: Path) -> None:
    (tmp_path / "figs.task.yaml").write_text(TASK.format(address="hub:acme/figs#en/test"))

    def figeval(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = (
            os.environ | {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "home")} | variables
        )
        command = [sys.executable, "-m", "figeval", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    run = ("run", "--tasks", "figs", "--model", "chance", "--include_path", str(tmp_path), "--no_baselines", "--fresh")
    hub = Hub()
    with answering(hub) as address:
        listed = figeval("ls", "tasks", "--json", "--include_path", str(tmp_path))
        (task,) = (task for task in json.loads(listed.stdout) if task["name"] == "figs")
        assert (task["availability"], hub.requests) == ("to be fetched", 0)
        for path, message in {"acme/nope#test": "no data set", "acme/figs@v9#test": "no revision 'v9'"}.items():
            failed = figeval("data", "fetch", f"hub:{path}")
            assert (failed.returncode, failed.stderr.count("\n")) == (2, 1), failed.stderr
            assert message in failed.stderr
        hub.status, hub.code = 403, "GatedRepo"
        assert "is gated: ask for access on http" in figeval("data", "fetch", "hub:acme/figs#en/test").stderr
        hub.status = 200
        assert figeval("data", "fetch", "hub:acme/figs#en/test").returncode == 0
        requests = hub.requests
        done = figeval(*run, "--output_path", str(tmp_path / "online"))
        assert (done.returncode, hub.requests) == (0, requests), done.stderr
    done = figeval(*run, "--output_path", str(tmp_path / "offline"), HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    records = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("online", "offline")]
    online, offline = (record["tasks"][0]["settings"]["hub"] for record in records)
    assert online == offline
    assert online["revision"] == COMMIT
    missing = figeval("data", "fetch", "hub:acme/figs#de/train", HF_HUB_OFFLINE="1")
    assert "is not on this machine, and HF_HUB_OFFLINE is set" in missing.stderr
