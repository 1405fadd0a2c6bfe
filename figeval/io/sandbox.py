"""The Jinja sandbox for all templates: strict about missing names, exact about white space, and bounded.

Templates and field expressions come from third parties. They may read the values given to them and nothing else; an
evaluation has limits of size and time (`figeval.io.steps`); and nothing random is available, so the same input always
gives the same text.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

from jinja2 import BaseLoader, StrictUndefined, Template, TemplateError, Undefined, defaults, nodes
from jinja2.environment import TemplateExpression
from jinja2.exceptions import (
    SecurityError,
    TemplateAssertionError,
    TemplateNotFound,
    TemplateRuntimeError,
    TemplateSyntaxError,
    UndefinedError,
)
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing as jinja2_missing
from jinja2.visitor import NodeTransformer

from figeval.errors import TaskError
from figeval.io import steps
from figeval.io.conversions import (
    JINJAS,
    ConversionError,
    check_formatted,
    check_texts,
    convert_to_float,
    convert_to_int,
    requiring_text,
)
from figeval.io.text import near, one_line

MAX_SOURCE_CHARS = 100_000  # characters of a template or an expression
INCLUDE_STEPS = 1_000  # for including another template
MAX_SHOWN_CHARS = 200  # characters of third-party text in a message
UNAVAILABLE = {"lipsum", "pprint", "random", "urlize", "xmlattr"}  # not deterministic, or for debugging and web pages
FORBIDDEN_METHODS = {"encode", "expandtabs", "format", "format_map", "to_bytes", "translate"}  # methods of str and int
PATH = re.compile(r"[\w.]+")
COLUMN = re.compile(r"row\.([\w-]+(?: [\w-]+)+)")
WORDS = re.compile(r"[\w,;:!?-]+(?:[ ][\w,;:'!?-]+)+[.…]?")
ROW_TYPES = (str, int, float, bool, list, dict)  # types of a row, which need no check; null may also be a missing name
NO_KEY = re.compile(r"'?dict object'? has no (?:attribute|element)")  # Jinja's words
DIGITS = range(4, 65)  # lengths of a hash; a SHA-256 has 64 hexadecimal digits


def digest(value: object, length: int = 12) -> str:
    """Return the first `length` hexadecimal digits of the SHA-256 of a text (in UTF-8), as the filter `hash` does.

    Of any other value, it is that of its JSON, without blanks and with sorted keys. With 12 digits, two of a million
    different texts have the same hash once in 560 times.

    Raises:
        ValueError: the length is not an integer from 4 to 64, or a number is not finite.
        TypeError: the value is null, or is not of one of JSON's types.
    """
    if isinstance(length, bool) or not isinstance(length, int) or length not in DIGITS:
        raise ValueError(f"a hash has {DIGITS[0]} to {DIGITS[-1]} digits, not {length!r:.40}")
    if value is None:
        raise TypeError("null has no hash")
    text = value if isinstance(value, str) else _json(value)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _json(value: object) -> str:
    def refuse(inner: object) -> object:
        _check(inner)  # the error for a missing name
        raise TypeError(f"a {type(inner).__name__} has no hash; write a text, a number, or a list or mapping of them")

    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False, default=refuse)


def _concatenate(values: list[object]) -> str:
    check_texts(values)
    return steps.join_pieces(map(steps.to_text, values))


# Filters that the sandbox itself adds to templates; authors cannot write a name with a blank.
METERS: dict[str, Callable[..., object]] = {
    "figeval concatenate": _concatenate,
    "figeval charge": steps.charge,
    "figeval spend": steps.spend_steps,
}
JINJA_FILTERS = {
    **{name: requiring_text(name, function) for name, function in JINJAS.items() if name not in UNAVAILABLE},
    "float": convert_to_float,
    "hash": digest,
    "int": convert_to_int,
}
FILTERS = {name: steps.limit_filter(name, function) for name, function in JINJA_FILTERS.items()} | METERS
TESTS = {name: steps.limit_filter(name, function) for name, function in vars(defaults)["DEFAULT_TESTS"].items()}


Body = TypeVar("Body", nodes.Macro, nodes.Block, nodes.CallBlock, nodes.For)


class EvaluationError(Exception):
    """An expression failed on its values; the message is one line."""


class MissingValue(LookupError):
    """An expression names something that does not exist; the message is one line.

    Attributes:
        holder: what lacks it, such as a row or a mapping in the expression; None if it is a variable.
        key: the name, key or index.
    """

    def __init__(self, message: str, holder: object = None, key: object = None) -> None:
        super().__init__(message)
        self.holder, self.key = holder, key


class _UndefinedError(UndefinedError):
    """Jinja's error for the use of a missing value, with what it was looked up in.

    Unlike `MissingValue`, it is no `LookupError`: of those, Jinja makes another missing value.
    """

    def __init__(self, message: str | None, holder: object, key: object) -> None:
        super().__init__(message)
        self.holder, self.key = holder, key


class _Missing(StrictUndefined):
    """A value that does not exist; Jinja raises what its `_undefined_exception` makes of a message."""

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: object = jinja2_missing,
        name: str | None = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
    ) -> None:
        super().__init__(hint, obj, name, exc)
        if exc is UndefinedError:
            holder = None if obj is jinja2_missing else obj
            self._undefined_exception = lambda message: _UndefinedError(message, holder, name)  # type: ignore[assignment]


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with a budget; its global names are a plain dictionary that nobody changes.

    Jinja itself uses a chain of dictionaries and copies it, slowly, each time a template is rendered.
    """

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)
    concat = staticmethod(steps.join_pieces)

    def __init__(self, **options: object) -> None:
        super().__init__(optimized=False, finalize=steps.to_text, **options)  # folding 1e999 would need a literal
        self.filters, self.tests = dict(FILTERS), dict(TESTS)
        self.globals = {name: value for name, value in self.globals.items() if name not in UNAVAILABLE}

    def make_globals(self, d: MutableMapping[str, object] | None) -> MutableMapping[str, object]:
        """Return the names that every template knows, overlaid by `d`."""
        return {**self.globals, **(d or {})}

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        return super()._generate(_Meter(self).visit(source), name, filename, defer_init)

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Apply Jinja's rules, and forbid methods that make much out of little."""
        forbidden = attr in FORBIDDEN_METHODS and isinstance(obj, str | int)
        return not forbidden and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: object) -> None:  # noqa: ARG002 - Jinja's
        """Do nothing: str.format is forbidden like other methods, since its widths could be computed."""
        return

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Compute an operation after its steps are spent."""
        steps.check_operation(operator, left, right)
        if operator == "%":
            check_formatted(left, right)
        return steps.charge_result(super().call_binop(context, operator, left, right))

    def call(__self, __context: Context, __obj: object, *args: object, **kwargs: object) -> object:
        """Make a call after its steps are spent, for a method also those of the text or list that it belongs to."""
        holder = getattr(__obj, "__self__", None)
        operands = (holder, *args) if isinstance(holder, str | bytes | list | tuple | dict) else args
        steps.check_call(getattr(__obj, "__name__", ""), (*operands, *kwargs.values()))
        return steps.charge_result(super().call(__context, __obj, *args, **kwargs))

    def getitem(self, obj: object, argument: object) -> object:
        """Return an item after its steps are spent."""
        steps.budget.spend(steps.LOOKUP_STEPS)
        return super().getitem(obj, argument)

    def get_template(
        self, name: str | Template, parent: str | None = None, globals: MutableMapping[str, object] | None = None
    ) -> Template:
        """Return a template that another one includes, for a fixed number of steps."""
        steps.budget.spend(INCLUDE_STEPS)
        return super().get_template(name, parent, globals)


class _Meter(NodeTransformer):
    """Makes a template spend steps where generated code calls no method of the environment."""

    def __init__(self, environment: Sandbox) -> None:
        self.environment = environment

    def _through(self, name: str, value: nodes.Node) -> nodes.Filter:
        node = nodes.Filter(value, f"figeval {name}", [], [], None, None, lineno=value.lineno or 1)
        return node.set_environment(self.environment)  # type: ignore[return-value]

    def _metered(self, node: Body) -> Body:
        """Add an expression to a body that spends steps for its text each time it runs."""
        if isinstance(node, nodes.For) and node.recursive:
            raise TemplateSyntaxError("recursive loops are not available", node.lineno)
        self.generic_visit(node)
        weight = steps.characters(sum(len(text.data) for text in node.find_all(nodes.TemplateData)))
        constant = nodes.Const(weight, lineno=node.lineno)
        node.body.insert(0, nodes.ExprStmt(self._through("spend", constant), lineno=node.lineno))
        return node

    visit_Macro = visit_Block = visit_CallBlock = visit_For = _metered

    def _measured(self, node: nodes.Expr) -> nodes.Expr:
        """Meter lists, tuples and mappings that are written out, and slices, which are copies."""
        self.generic_visit(node)
        is_target = getattr(node, "ctx", "load") != "load"
        is_item = isinstance(node, nodes.Getitem) and not isinstance(node.arg, nodes.Slice)
        return node if is_target or is_item else self._through("charge", node)

    visit_List = visit_Tuple = visit_Dict = visit_Getitem = _measured

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:
        """Meter comparisons, which compare long texts and lists item by item."""
        self.generic_visit(node)
        node.expr = self._through("charge", node.expr)
        for operand in node.ops:
            operand.expr = self._through("charge", operand.expr)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
        """Meter `~`, which makes a text."""
        self.generic_visit(node)
        return self._through("concatenate", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Const(self, node: nodes.Const) -> nodes.Const:
        """Refuse literals beyond the range of a float."""
        if isinstance(node.value, float) and not math.isfinite(node.value):
            raise TemplateSyntaxError("a number is too large", node.lineno)
        return node


def environment(loader: BaseLoader | None = None) -> Sandbox:
    """Return a sandboxed environment, in which a missing name is an error, never an empty string."""
    return Sandbox(loader=loader, undefined=_Missing, trim_blocks=True, lstrip_blocks=True, autoescape=False)


@contextmanager
def compiling(location: str) -> Iterator[None]:
    """Turn errors that third-party source causes in the compiler into a `TaskError` that begins with `location`."""
    steps.budget.begin()
    try:
        yield
    except TaskError:
        raise
    except RecursionError as error:
        raise TaskError(f"{location}: nested too deeply") from error
    except TemplateAssertionError as error:  # `No filter named 'hsah'.`
        message = _one_line(error).removesuffix(".")
        raise TaskError(f"{location}: {message}{near(message.rpartition(' ')[2], {*JINJA_FILTERS, *TESTS})}") from error
    except Exception as error:  # Python's own compiler refuses with SyntaxError, MemoryError, ValueError, ...
        raise TaskError(f"{location}: {_one_line(error)}") from error


@contextmanager
def evaluating(location: str) -> Iterator[None]:
    """Begin a new budget, and turn what the sandbox forbids into a `TaskError` that begins with `location`.

    Raises:
        TaskError: the source exceeds what the sandbox allows, or is wrong.
        MissingValue: a name, key or index is missing.
        EvaluationError: anything else; the source is third-party, so its exceptions are not bugs of figeval.
    """
    steps.budget.begin()
    try:
        yield
    except TaskError:
        raise
    except ConversionError as error:
        raise EvaluationError(_one_line(error)) from error
    except SecurityError as error:
        raise TaskError(f"{location} is not allowed in the sandbox ({_one_line(error).removesuffix('.')})") from error
    except TemplateError as error:
        missing = (error.holder, error.key) if isinstance(error, _UndefinedError) else ()
        raise MissingValue(NO_KEY.sub("there is no key", _one_line(error)), *missing) from error
    except RecursionError as error:
        raise EvaluationError("nested too deeply, or calls itself") from error
    except Exception as error:
        raise EvaluationError(f"{type(error).__name__}: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    message = f"there is no template {error.name!r}" if isinstance(error, TemplateNotFound) else str(error)
    return one_line(message, MAX_SHOWN_CHARS) or type(error).__name__


def _expression_cure(source: str) -> str:
    """Return how to write what a user may have meant by a source that is no expression, for the middle of a message."""
    if "{{" in source:
        return ", which is written without {{ and }}"
    if column := COLUMN.fullmatch(source.strip()):
        return f"; a column with blanks is written row[{column[1]!r}]"
    return "; a text that is the same for all rows is written in single quotes" if WORDS.fullmatch(source) else ""


Expression = Callable[[Mapping[str, object]], object]


def expression(source: str, location: str) -> Expression:
    """Compile one Jinja expression to a function of its variables that returns the value itself (an int stays one).

    Raises `TaskError` with `location` if the source is no expression. The function raises as `evaluating` does; Jinja
    itself returns an Undefined object for a missing name.
    """
    shown = f"{source!r}" if len(source) <= MAX_SHOWN_CHARS else f"{source[:MAX_SHOWN_CHARS]!r}…"
    with compiling(f"{location}: {shown} is not a Jinja expression{_expression_cure(source)}"):
        if len(source) > MAX_SOURCE_CHARS:
            raise ValueError(f"more than {MAX_SOURCE_CHARS:,} characters")
        compiled = _compile_expression(source)
    plain = PATH.fullmatch(source) is not None
    names = source.split(".")
    # Jinja prefers the methods of a dict to its keys, and reads `row.0` as an index.
    direct = all(name.isidentifier() and not hasattr(dict, name) for name in names)

    def evaluate(variables: Mapping[str, object]) -> object:
        content: object = variables
        if direct:  # what most fields are: a value of the row, which takes Jinja ten times as long to find
            for name in names:
                content = content.get(name) if type(content) is dict else None
            if type(content) in ROW_TYPES:
                return content
        with evaluating(f"{location}: {shown}"):
            value = compiled(**variables)
            _check(value)
            if not plain:  # a plain path returns part of the row, which was limited when it was read
                steps.measure(value)
                _check_inside(value)
            return value

    return evaluate


@lru_cache(maxsize=4096)
def _compile_expression(source: str) -> TemplateExpression:
    """Compile an expression once, because a program that runs several models compiles the same fields each time."""
    return environment().compile_expression(source, undefined_to_none=False)


def _check(value: object) -> None:
    """Raise an error for a missing name, and for results that are not values."""
    if isinstance(value, Undefined):
        str(value)  # raises an error with the reason
    if isinstance(value, Iterator) or callable(value) or type(value).__module__.startswith("jinja2."):
        raise TypeError(
            f"an object of type {type(value).__name__} is not a value; end a chain of filters with `| list`"
        )


def _check_inside(value: object) -> None:
    """Check the content of lists and mappings, too: `row.o | map(attribute='x') | list` looks up many names."""
    content = (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for inner in content:
        _check(inner)
        _check_inside(inner)
