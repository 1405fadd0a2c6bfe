"""YAML from third parties: task files, suites, presets and configs, with one-line error messages.

Size, nesting and the expansion of aliases are limited before values are constructed. Only the types of JSON are made:
dates stay texts, and tags that ask for other types are refused. So is a duplicate key, of which PyYAML would silently
keep the last. `parse_yaml` reads a text, `read_mapping` a file with keys and values, `read_yaml` a file that a pydantic
model describes. `yaml_text` writes what they read.
"""

from __future__ import annotations

import pickle
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.resources.abc import Traversable
from typing import Any, TypeAlias, TypeVar

import yaml
from pydantic import BaseModel
from yaml.constructor import ConstructorError
from yaml.reader import ReaderError

from figeval.errors import FigevalError
from figeval.io.files import MAX_BYTES, read_text
from figeval.io.validation import validate

M = TypeVar("M", bound=BaseModel)
Constructor: TypeAlias = Callable[[yaml.SafeLoader, yaml.Node], object]
MAX_DEPTH = 50  # levels of lists and mappings
MAX_NODES = 100_000  # values, counting those behind aliases each time
UNQUOTED = re.compile(r"""\s*(- )?[\w-]+:\s+(?:['"{\[`@%].*\S|.*:\s)""")
"""A line with a value that YAML takes for a list, a mapping, a quoted text or a key."""
PREFIX = "tag:yaml.org,2002:"
SCALARS = tuple(PREFIX + name for name in ("null", "bool", "int", "float", "str"))
COLLECTIONS = (PREFIX + "seq", PREFIX + "map")
TIMESTAMP = PREFIX + "timestamp"


class InvalidYAML(ValueError):
    """A text is not YAML, or exceeds the limits; the message is one line. `line` counts from 1, if it is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(" ".join(message.split()))
        self.line = line


def _scalar(make: Constructor) -> Constructor:
    """Wrap a PyYAML constructor so that its errors have a place and it refuses integers beyond the range of a float."""

    def construct(loader: yaml.SafeLoader, node: yaml.Node) -> object:
        try:
            value = make(loader, node)
            if isinstance(value, int):
                float(value)
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            problem = f"{node.value!r:.40} is not of type {node.tag.rpartition(':')[2]}, or has too many digits"
            raise ConstructorError(None, None, problem, node.start_mark) from error
        return value

    return construct


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loader of JSON's types only."""

    yaml_constructors = {  # noqa: RUF012 - as PyYAML declares it
        tag: _scalar(make) if tag in SCALARS else make
        for tag, make in yaml.SafeLoader.yaml_constructors.items()
        if tag in (None, *SCALARS, *COLLECTIONS)
    }
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in rules if tag != TIMESTAMP]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def get_single_node(self) -> yaml.Node | None:
        """Compose the document. Raises `ConstructorError` for a duplicate key in a mapping."""
        root: yaml.Node | None = super().get_single_node()
        for node in _nodes(root):
            pairs: set[tuple[str, str]] = set()
            keys = (key for key, _ in node.value) if isinstance(node, yaml.MappingNode) else ()
            for key in (key for key in keys if isinstance(key, yaml.ScalarNode)):
                if (key.tag, key.value) in pairs:
                    raise ConstructorError(None, None, f"the key {key.value!r:.40} is given twice", key.start_mark)
                pairs.add((key.tag, key.value))
        return root


def _nodes(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Yield all nodes of a document once each, because an alias is the same node again."""
    stack, visited = [root], set()
    while stack:
        node = stack.pop()
        if node is None or id(node) in visited:
            continue
        visited.add(id(node))
        yield node
        if isinstance(node, yaml.MappingNode):
            stack += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            stack += node.value


def parse_yaml(text: str, *, max_bytes: int = MAX_BYTES) -> Any:
    """Parse a YAML text.

    Raises:
        InvalidYAML: the text is not YAML, is larger than `max_bytes`, is nested deeper than 50 levels, has more than
            100,000 values or an alias inside its own anchor, or a value does not match its tag.
    """
    if len(text) > max_bytes:
        raise InvalidYAML(f"larger than {max_bytes:,} characters")
    try:
        return pickle.loads(_parse_pickled(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        column = f" (column {mark.column + 1})" if mark else ""
        problem = ", ".join(filter(None, (error.context, error.problem)))
        cure = _quoting_cure(text, mark.line) if mark else ""
        raise InvalidYAML(f"{problem}{column}{cure}", mark.line + 1 if mark else None) from error
    except ReaderError as error:
        before = text.encode("utf-8", "surrogatepass")[: error.position]  # libyaml counts bytes
        character = f"U+{error.character:04X}" if isinstance(error.character, int) else f"{error.character!a}"
        raise InvalidYAML(f"the character {character} is not allowed", before.count(b"\n") + 1) from error
    except yaml.YAMLError as error:
        raise InvalidYAML(str(error)) from error


def _quoting_cure(text: str, line: int) -> str:
    """Return the cure for a line, counted from 0, whose value should be one text; "" for other lines."""
    lines = text.splitlines()
    is_unquoted = line < len(lines) and UNQUOTED.match(lines[line])
    return '; if the value is one text or expression, put all of it in double quotes: "…"' if is_unquoted else ""


@lru_cache(maxsize=1024)
def _parse_pickled(text: str) -> bytes:
    """Parse a text once, and pickle its value, of which each caller gets a copy: every run reads the same files."""
    _check_limits(text)
    return pickle.dumps(yaml.load(text, Loader=_Loader))


def _check_limits(text: str) -> None:
    """Check nesting, expanded size and aliases. Raises `InvalidYAML`. Only events are read, which need no stack."""
    total = 0  # nodes so far, aliases expanded
    sizes: dict[str, tuple[int, int]] = {}  # anchor → nodes and levels below it, once it is complete
    open_nodes: list[tuple[str | None, int, int]] = [(None, 0, 0)]  # anchor, nodes, levels; the first is the stream
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else None
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1, 1))
            sizes.pop(event.anchor or "", None)
            total += 1
            nodes, levels = 0, 0
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, nodes, levels = open_nodes.pop()
            sizes[anchor or ""] = nodes, levels
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                problem = f"the alias *{event.anchor} refers to a value that contains it, or that does not exist"
                raise InvalidYAML(problem, line)
            nodes, levels = sizes[event.anchor]
            total += nodes
        elif isinstance(event, yaml.ScalarEvent):
            nodes, levels = 1, 0
            total += 1
            sizes[event.anchor or ""] = nodes, levels
        else:
            continue
        anchor, counted, below = open_nodes[-1]
        open_nodes[-1] = anchor, counted + nodes, max(below, levels + 1)
        if len(open_nodes) + levels > MAX_DEPTH + 1:
            raise InvalidYAML(f"nested too deeply (more than {MAX_DEPTH} levels)", line)
        if total > MAX_NODES:
            raise InvalidYAML(f"more than {MAX_NODES:,} values, aliases expanded", line)


def read_yaml(file: Traversable, model: type[M], failure: type[FigevalError]) -> M:
    """Read a file as a model. Raises `failure` with file, key and, for an unknown key, the nearest known one."""
    return validate(read_mapping(file, failure), str(file), model, failure)


def read_mapping(file: Traversable, failure: type[FigevalError]) -> dict[str, Any]:
    """Return the keys and values of a file, unvalidated. Raises `failure` if it is not a YAML mapping."""
    try:
        content = parse_yaml(read_text(file, failure))
    except InvalidYAML as error:
        location = f"{file}:{error.line}" if error.line else str(file)
        raise failure(f"{location}: not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise failure(f"{file}: must be a mapping of keys to values")
    if strange := [key for key in content if not isinstance(key, str)]:
        raise failure(f"{file}: the key {strange[0]!r} is not a text; put it in quotes")
    return content


# ---- writing ---------------------------------------------------------------------------------------------------------


class _Dumper(yaml.SafeDumper):
    """Dumper that writes a value as often as it occurs: not every reader of YAML knows aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _quoted_if_hidden(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Return a text with what nobody sees in quotation marks, between which it can be escaped."""
    return dumper.represent_scalar(f"{PREFIX}str", text, style='"' if any(map(_is_hidden, text)) else None)


_Dumper.add_representer(str, _quoted_if_hidden)


def yaml_text(value: Any, *, width: int = 80, is_inline: bool = False) -> str:
    """Return JSON as YAML in which every character can be seen: controls and marks of direction are escaped.

    Args:
        value: the value.
        width: length of a line from which texts are wrapped.
        is_inline: write lists and mappings in brackets.
    """
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=is_inline, sort_keys=False, allow_unicode=True, width=width
    )
    return "".join(f"\\U{ord(letter):08X}" if _is_hidden(letter) else letter for letter in text)


def _is_hidden(letter: str) -> bool:
    return letter != "\n" and unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp")
