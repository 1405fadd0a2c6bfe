"""Splits of data sets of the Hugging Face Hub: their addresses, their files in a folder or on the hub, their rows.

The library `datasets` knows which files a split has, and reads them. No code of a data set is ever run, only files
inside of it are read, and only formats of rows.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from logging import CRITICAL, getLogger
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, NamedTuple

from figeval.errors import DataError, FigevalError, MissingData
from figeval.extras import missing_package
from figeval.io.files import inside, read_text
from figeval.io.text import near, one_line

HUB = "hub"  # scheme of the addresses
NAME = r"\w[\w.-]*"
ADDRESS = re.compile(
    rf"(?P<name>{NAME}(?:/{NAME})?)(?:@(?P<revision>{NAME}(?:/{NAME})*))?(?:#(?:(?P<config>[^#]+)/)?(?P<split>{NAME}))?"
)
FORM = "write hub:OWNER/NAME#SPLIT, hub:OWNER/NAME#CONFIG/SPLIT or hub:OWNER/NAME@COMMIT#CONFIG/SPLIT"
COMMIT = re.compile(r"[0-9a-f]{40}")
SHARD = re.compile(r"(.*)-\d{5}-of-(\d{5})")
REMOTE = re.compile(r"hf://datasets/[^@]+@[^/]+/(.+)")
KINDS = ("arrow", "csv", "json", "parquet", "text")  # modules of datasets for rows, which need no other library
DEFAULT_REVISION = "main"
CARDS = ("README.md", ".huggingface.yaml", "dataset_infos.json")  # say which files a split has
SNAPSHOTS = "snapshots"  # folder of commits in the cache
REACH_SECONDS = 30
PARQUET_BRANCH = "refs/convert/parquet"  # on which the hub keeps a copy of many data sets


class HubAddress(NamedTuple):
    """A split of a data set on the hub.

    Attributes:
        name: `OWNER/NAME`.
        revision: a commit, branch or tag; empty for the main branch.
        config: name of the configuration; empty for the default one.
        split: name of the split; empty for the only one.
    """

    name: str
    revision: str = ""
    config: str = ""
    split: str = ""

    def __str__(self) -> str:
        revision, config = self.revision and f"@{self.revision}", self.config and f"{self.config}/"
        return f"{HUB}:{self.name}{revision}" + (f"#{config}{self.split}" if self.split else "")


def parse_address(address: str) -> HubAddress:
    """Return the parts of `OWNER/NAME@REVISION#CONFIG/SPLIT`. Raises `DataError` if it has another form."""
    match = ADDRESS.fullmatch(address)
    if match is None or ".." in address:
        raise DataError(f"{address!r:.200} is no address of a data set on the hub; {FORM}")
    return HubAddress(*(part or "" for part in match.group("name", "revision", "config", "split")))


def download(path: str) -> Path:
    """Download the files of a split into the hub's cache, and return the folder of their commit.

    Raises:
        MissingData: the hub cannot be reached.
        DataError: there is no such data set, revision, configuration or split, or access is denied.
    """
    address = parse_address(path)
    with _hub_errors(address), TemporaryDirectory() as scratch:
        from huggingface_hub import HfApi, constants, errors, hf_hub_download, snapshot_download

        if constants.HF_HUB_OFFLINE:
            raise MissingData(f"{address} is not on this machine, and HF_HUB_OFFLINE is set; {_cure(address)}")
        info = HfApi().dataset_info(address.name, revision=address.revision or None, timeout=REACH_SECONDS)
        commit, listed = str(info.sha), [sibling.rfilename for sibling in info.siblings or ()]
        if (script := f"{address.name.rpartition('/')[2]}.py") in listed:
            cure = f"try the hub's copy of it: {address._replace(revision=PARQUET_BRANCH)}"
            raise DataError(f"{address} has code of its own ({script}), which figeval does not run; {cure}")
        if CARDS[0] in listed:  # before `datasets` reads it, without limits
            _metadata(Path(hf_hub_download(address.name, CARDS[0], repo_type="dataset", revision=commit)))
        with reading(address):
            files = _remote_files(address, commit, scratch)
        names = [*(name for name in CARDS if name in listed), *files]
        patterns = list(map(escape, names))  # a download by patterns leaves the list of the commit's files in the cache
        folder = Path(snapshot_download(address.name, repo_type="dataset", revision=commit, allow_patterns=patterns))
        if CARDS[0] not in listed:
            with suppress(errors.EntryNotFoundError):  # the cache remembers that there is none
                hf_hub_download(address.name, CARDS[0], repo_type="dataset", revision=commit)
        if not COMMIT.fullmatch(address.revision):  # names the commit in the cache, as the last step
            revision = address.revision or DEFAULT_REVISION
            hf_hub_download(address.name, names[0], repo_type="dataset", revision=revision)
    return folder


def store(path: str, *, force: bool = False) -> Path:
    """Return the folder of a split in the hub's cache, downloading it if necessary; `force` asks for a newer commit.

    Raises:
        DataError: as in `download`.
    """
    with TemporaryDirectory() as scratch:
        split = None if force else cached_split(parse_address(path), scratch)
    return split.folder if split else download(path)


def cached_split(address: HubAddress, scratch: str) -> HubSplit | None:
    """Return a split in the hub's cache; None if there is no such split, or files may be missing.

    A cache has what somebody has downloaded. Without the card, or some files of a pattern, it would seem to have
    another split, or a shorter one.
    """
    folder = cached_folder(address)
    if folder is None:
        return None
    names = _listing(folder, address)
    gaps = {name for name in names or () if not (folder / name).is_file()}
    has_card = (folder / CARDS[0]).is_file() or (names is not None and CARDS[0] not in names)
    if gaps.intersection(CARDS) or not (has_card or (_absences(folder) / CARDS[0]).is_file()):
        return None
    expected: Iterable[str] = ()
    with suppress(DataError):  # only the content of an archive tells its format
        expected = _expected_files(folder, names or (), address, scratch) if gaps else ()
    if gaps.intersection(expected):
        return None
    with suppress(DataError):
        return HubSplit.in_folder(folder, address, scratch)
    return None


def _listing(folder: Path, address: HubAddress) -> list[str] | None:
    """Return the names of all files of a commit, if the hub's client has noted them."""
    try:
        from huggingface_hub import get_cached_repo_tree
        from huggingface_hub.errors import CachedRepoTreeNotFoundError
    except ImportError:  # older releases of the client note none
        return None
    try:
        files = get_cached_repo_tree(address.name, repo_type="dataset", revision=folder.name, cache_dir=_cache())
    except CachedRepoTreeNotFoundError:
        return None
    return [file.path for file in files if not (file.path.startswith("/") or ".." in file.path)]


def _absences(folder: Path) -> Path:
    """Return the folder in which the hub's client notes that the hub lacks a file of a commit."""
    return folder.parents[1] / ".no_exist" / folder.name


def _expected_files(folder: Path, names: Sequence[str], address: HubAddress, scratch: str) -> Iterable[str]:
    """Return the names of the files that a split should have."""
    tree = Path(mkdtemp(dir=scratch))
    for name in names:
        file = tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((folder / name).read_bytes() if name in CARDS else b"")
    return HubSplit.in_folder(tree, address, scratch).files


def cached_folder(address: HubAddress) -> Path | None:
    """Return the folder of a revision in the hub's cache, which may lack files; None if there is none."""
    cache = _cache() / f"datasets--{address.name.replace('/', '--')}"
    commit = address.revision
    if not COMMIT.fullmatch(commit):
        try:
            commit = (cache / "refs" / (commit or DEFAULT_REVISION)).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return None
    folder = cache / SNAPSHOTS / commit
    return folder if COMMIT.fullmatch(commit) and folder.is_dir() else None


def _cache() -> Path:
    """Return the hub's cache, as huggingface_hub has it; `figeval ls` asks, and must not wait for that import."""
    caches = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"))
    home = Path(os.environ.get("HF_HOME", caches / "huggingface"))
    cache = os.environ.get("HF_HUB_CACHE", os.environ.get("HUGGINGFACE_HUB_CACHE", home / "hub"))
    return Path(os.path.expandvars(cache)).expanduser()


# ---- splits ----------------------------------------------------------------------------------------------------------


class HubSplit:
    """A split of a data set, in a folder or on the hub."""

    def __init__(self, builder: Any, name: str, folder: Path, files: Sequence[str]) -> None:
        self._builder, self._name, self._files, self.folder = builder, name, files, folder

    @classmethod
    def in_folder(cls, folder: Path, address: HubAddress, scratch: str) -> HubSplit:
        """Return a split in a folder, which may lack other splits and configurations; `scratch` is written to.

        Raises:
            DataError: there is no such configuration or split, it is no table, or a shard of it is missing.
        """
        folder = folder.resolve()
        with reading(address):
            view = _card_of(folder, address, scratch)
            builder = _builder(address, str(view or folder), scratch)
        name, files = _files_of(builder, address)
        if not all(Path(file).is_relative_to(folder) and ".." not in Path(file).parts for file in files):
            raise DataError(f"{address} names files outside of the data set, which figeval does not read; copy them in")
        root = folder.parents[1] if folder.parent.name == SNAPSHOTS else folder  # of links to the blobs of a cache
        for file in files:
            inside(root, Path(file).relative_to(root).as_posix(), DataError)
        _check_shards(files, address, folder)
        return cls(builder, name, folder, files)

    @property
    def names(self) -> dict[str, str]:
        """The names of configuration and split."""
        return {"config": str(self._builder.config.name), "split": self._name}

    @property
    def files(self) -> Mapping[str, Path]:
        """The files of the split, by their path in the data set."""
        return {Path(file).relative_to(self.folder).as_posix(): Path(file) for file in self._files}

    @property
    def n(self) -> int | None:
        """The number of rows, if the data set says how many there should be."""
        info = (self._builder.info.splits or {}).get(self._name)
        count = getattr(info, "num_examples", None)  # of any type, since people write cards
        return count if isinstance(count, int) and count > 0 else None

    @property
    def kind(self) -> str:
        """The format of the files, one of `KINDS`."""
        return _kind(self._builder)

    def read(self, address: HubAddress, batch_rows: int) -> Iterator[Mapping[str, Any]]:
        """Yield the rows as `datasets` reads them. Raises `DataError` if a file is damaged.

        At most `batch_rows` rows of a Parquet file are in memory; `datasets` has no such limit for other formats.
        """
        if self.kind == "parquet":
            self._builder.config.batch_size = batch_rows
        with reading(address):
            dataset = self._builder.as_streaming_dataset(split=self._name)
            stream = iter(dataset if dataset.features is None else dataset.decode(False))
        while True:
            with reading(address):
                row = next(stream, None)
            if row is None:
                return
            yield row


def _remote_files(address: HubAddress, commit: str, scratch: str) -> list[str]:
    """Return the paths of the files of a split on the hub. Raises `DataError` as `HubSplit.in_folder` does."""
    _, files = _files_of(_builder(address, address.name, scratch, commit), address)
    paths = [match[1] for match in map(REMOTE.fullmatch, files) if match and ".." not in match[1]]
    if len(paths) < len(files):
        raise DataError(f"{address} names files outside of the data set, which figeval does not read; copy them in")
    return paths


def _card_of(folder: Path, address: HubAddress, scratch: str) -> Path | None:
    """Write the card of a folder with one configuration and split only, and return its folder; None without a card.

    `datasets` refuses a folder that lacks a file of any split, but a cache rarely has all of them.
    """
    import yaml
    from datasets.data_files import get_data_patterns

    data = _metadata(folder / CARDS[0])
    configs = {str(config.get("config_name", "default")): config for config in data.get("configs") or []}
    if not configs:
        return None
    defaults = [name for name, config in configs.items() if config.get("default")] or ["default"]
    name = address.config or (next(iter(configs)) if len(configs) == 1 else defaults[0])
    if name not in configs:
        problem = f"has no configuration {name!r}" if address.config else "has several configurations"
        raise DataError(
            f"{address} {problem}{near(name, configs)}; they are {one_line(', '.join(configs), 200)}; {FORM}"
        )
    config = dict(configs[name])
    base = folder / str(config.pop("data_dir", ""))
    files = config.get("data_files")
    if files is None:
        files = [{"split": str(split), "path": paths} for split, paths in get_data_patterns(str(base)).items()]
    if isinstance(files, list) and all(isinstance(part, dict) for part in files):
        parts = [part for part in files if part.get("split") == (address.split or part.get("split"))]
        files = [part | {"path": _absolute(base, part.get("path"))} for part in parts or files]
    config["data_files"] = _absolute(base, files)
    infos = data.get("dataset_info") or []
    infos = [info for info in (infos if isinstance(infos, list) else [infos]) if info.get("config_name", name) == name]
    text = yaml.safe_dump({"configs": [config], "dataset_info": infos})
    view = Path(mkdtemp(dir=scratch))
    (view / CARDS[0]).write_text(f"---\n{text}---\n", encoding="utf-8")
    return view


def _metadata(card: Path) -> dict[str, Any]:
    """Return the metadata of a card, which are YAML; empty without a card. Raises `DataError` beyond limits of size."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    from figeval.io.yaml_files import InvalidYAML, parse_yaml

    match = REGEX_YAML_BLOCK.search(read_text(card, DataError)) if card.is_file() else None
    try:
        data = parse_yaml(match[2]) if match else None
    except InvalidYAML as error:
        raise DataError(f"{card}: the metadata cannot be read ({error}); correct them") from error
    return data if isinstance(data, dict) else {}


def _absolute(folder: Path, patterns: Any) -> Any:
    if isinstance(patterns, list):
        return [_absolute(folder, pattern) for pattern in patterns]
    is_path = isinstance(patterns, str) and "://" not in patterns
    return str(folder / patterns) if is_path else patterns


def _builder(address: HubAddress, source: str, scratch: str, revision: str | None = None) -> Any:
    """Return what `datasets` reads a configuration with, in a folder or on the hub."""
    from datasets import load_dataset_builder

    return load_dataset_builder(source, address.config or None, revision=revision, cache_dir=scratch)


def _files_of(builder: Any, address: HubAddress) -> tuple[str, list[str]]:
    """Return the name of a split and its files. Raises `DataError` if there is no such split, or it is no table."""
    splits = {str(name): files for name, files in (builder.config.data_files or {}).items()}
    name = address.split or (next(iter(splits)) if len(splits) == 1 else "")
    if name not in splits:
        listed = one_line(", ".join(splits), 200)
        problem = f"has no split {name!r}" if name else "has several splits"
        raise DataError(f"{address} {problem}{near(name, splits)}; its splits are {listed}; {FORM}")
    kind = _kind(builder)
    if kind not in KINDS:
        raise DataError(f"{address} is no table, but of the kind {kind}; figeval reads {', '.join(KINDS)}")
    return name, [str(file) for file in splits[name]]


def _kind(builder: Any) -> str:
    """Return which module of `datasets` reads the files."""
    return type(builder).__module__.rpartition(".")[2]


def _check_shards(files: Sequence[str], address: HubAddress, folder: Path) -> None:
    counts = Counter(match.groups() for match in map(SHARD.match, files) if match)
    for (_, total), count in counts.items():
        if count != int(total):
            raise DataError(f"{address}: {folder} has {count} of {int(total)} files of the split; copy them all")


@contextmanager
def reading(address: HubAddress) -> Iterator[None]:
    """Turn any error of `datasets` into a `DataError`, and keep its remarks off the screen."""
    logger = getLogger("datasets")
    level = logger.level
    logger.setLevel(CRITICAL)
    try:
        yield
    except DataError:
        raise
    except ImportError as error:
        if error.name is None:  # `datasets` says what to install
            raise DataError(f"{address} cannot be read: {one_line(str(error), 200)}") from error
        name = error.name.partition(".")[0]  # e.g. zstandard
        other = DataError(f"{address} needs the library {name}; pip install {name}")
        raise missing_package(error, str(address)) or other from error
    except Exception as error:  # pandas, pyarrow, fsspec and decompressors raise errors of their own
        reason = one_line(str(error), 200) or type(error).__name__
        raise DataError(f"{address} cannot be read ({reason}); check the address, or copy the data again") from error
    finally:
        logger.setLevel(level)


# ---- the hub ---------------------------------------------------------------------------------------------------------


def _cure(address: HubAddress) -> str:
    return f"fetch it where there is a network, or give a copy with --data {address.name}=FOLDER"


@contextmanager
def _hub_errors(address: HubAddress) -> Iterator[None]:
    """Turn the errors of the hub's client into a `DataError` that says what to do."""
    from huggingface_hub import constants, errors

    page = f"{constants.ENDPOINT}/datasets/{address.name}"
    try:
        yield
    except errors.GatedRepoError as error:
        raise DataError(f"{address} is gated: ask for access on {page}, then run `hf auth login`") from error
    except errors.RepositoryNotFoundError as error:
        raise DataError(f"the hub has no data set {address.name!r}; if it is private: `hf auth login`") from error
    except errors.RevisionNotFoundError as error:
        raise DataError(f"the hub has {address.name!r}, but no revision {address.revision!r}; check it") from error
    except FigevalError:
        raise
    except Exception as error:  # releases of the client use requests, httpx or httpx2, which have errors of their own
        reason = one_line(str(error), 200) or type(error).__name__
        raise MissingData(
            f"{address} is not on this machine, and cannot be downloaded ({reason}); {_cure(address)}"
        ) from error
