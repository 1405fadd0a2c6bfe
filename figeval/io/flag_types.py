"""Types of the flags of a run, with the checks and conversions of their values."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from annotated_types import Ge, Gt

from figeval.io.files import is_file
from figeval.io.settings import parse_settings
from figeval.io.text import whole_number
from figeval.reasoning import Reasoning

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class FlagCheck:
    """A check or conversion of a value, as metadata of its type. pydantic runs it, and is imported only then.

    Attributes:
        function: returns the value; raises `ValueError` with what it must be.
        before: run it before the type is checked, instead of afterwards.
        schema: returns the type that the JSON Schema describes, if it differs.
    """

    function: Callable[[Any], Any]
    before: bool = False
    schema: Callable[[], Any] | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return pydantic's schema of the type with this check."""
        from pydantic import AfterValidator, BeforeValidator

        if not self.before:
            return AfterValidator(self.function).__get_pydantic_core_schema__(source, handler)
        described = {} if self.schema is None else {"json_schema_input_type": self.schema()}
        return BeforeValidator(self.function, **described).__get_pydantic_core_schema__(source, handler)


@dataclass(frozen=True, slots=True)
class FiniteNumber:
    """A float that is neither NaN nor infinite, as metadata of its type; `gt` and `ge` are its lower bound."""

    gt: float | None = None
    ge: float | None = None

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return pydantic's schema of the number."""
        from pydantic_core.core_schema import float_schema

        return float_schema(allow_inf_nan=False, gt=self.gt, ge=self.ge)


def _augmentation() -> Any:
    from figeval.augmentation import Augmentation

    return Augmentation


def _with_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str) and any(sign in value for sign in "={"):
        return parse_settings(value)
    from figeval.augmentation import Addition

    add = value if value in get_args(Addition) else "concepts"
    raise ValueError(f'write {{"add": "{add}"}}')


def _read_augment(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if not value:
        return {}
    from pydantic import ValidationError

    from figeval.augmentation import Augmentation
    from figeval.io.validation import first_problem

    try:
        return Augmentation.model_validate(dict(value)).model_dump(by_alias=True)
    except ValidationError as error:
        if "add" not in value:
            raise ValueError("it does not say what to add; write add=concepts, neighbours or outline") from error
        raise ValueError(first_problem(error, Augmentation)) from error


def _with_digest(value: str) -> str:
    """Return the path of a template file with a digest of its text, `mine.jinja@1f0c9a2b`; names stay as they are."""
    file = Path(value).expanduser()
    if not (value.endswith(TEMPLATE) and is_file(file)):
        return value
    return f"{file}@{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"


def template_parts(template: str) -> tuple[Path | None, str]:
    """Return the file of a checked `template`, None if it is a name, and its name without the folder."""
    path, _, digest = template.rpartition("@")
    if not FILE_DIGEST.fullmatch(digest) or not path.endswith(TEMPLATE):
        return None, template
    return Path(path), f"{Path(path).name}@{digest}"


def _in_orders(value: str) -> str:
    if not value or value in {"cyclic", "all"} or (whole_number(value) or 0) > 1:
        return value
    raise ValueError("cyclic, all, or a number of at least 2 as a string")


def _as_settings(value: Any) -> Any:
    """Return `settings` as a mapping of `TASK.SETTING` or `SETTING` to scalars; `a=1,b=x` is the same."""
    settings = parse_settings(value) if isinstance(value, str) else value
    for key, part in settings.items() if isinstance(settings, Mapping) else ():
        if not isinstance(key, str) or not SETTING.fullmatch(key):
            raise ValueError(f"{key!r:.80} is not SETTING or TASK.SETTING")
        if not isinstance(part, str | int | float) or not (isinstance(part, str) or abs(part) <= LARGEST_FLOAT):
            raise ValueError(f"the value of {key} is {part!r:.80}; give a number, a text, true or false")
    return settings


def _parsed_reasoning(value: str | bool) -> str:
    return str(Reasoning.parse(value)) if value != "" else ""


# Empty, or a mapping with all keys of `Augmentation`.
Augment = Annotated[
    Mapping[str, Any], FlagCheck(_with_keys, before=True, schema=_augmentation), FlagCheck(_read_augment)
]
Orders = Annotated[str, FlagCheck(_in_orders)]
TEMPLATE = ".jinja"
FILE_DIGEST = re.compile("[0-9a-f]{8}")
TemplateName = Annotated[str, FlagCheck(_with_digest)]
SETTING = re.compile(r"(\w+\.)?\w+")
LARGEST_FLOAT = sys.float_info.max  # infinity is larger, and so are integers that become no float
TaskSettings = Annotated[
    Mapping[str, Any], FlagCheck(_as_settings, before=True, schema=lambda: str | Mapping[str, Any])
]
Thinking = Annotated[str, FlagCheck(_parsed_reasoning, before=True, schema=lambda: str | bool)]
NonNegativeInt = Annotated[int, Ge(0)]
PositiveInt = Annotated[int, Gt(0)]
SHARE = re.compile(r"0?\.[0-9]{1,18}")


def _size(value: Any) -> int | float:
    """Return the number of examples, or a share of them between 0 and 1; flags of `figeval train` are texts."""
    number: Any = value
    if isinstance(value, str):
        number = whole_number(value) or (float(value) if SHARE.fullmatch(value) else None)
    if isinstance(number, Integral) and number is not True and number >= 1:  # type: ignore[operator]
        return int(number)
    if isinstance(number, Real) and 0 < float(number) < 1:
        return float(number)
    raise ValueError("a number of examples from 1, or a share between 0 and 1 such as 0.1")


Size = Annotated[int | float, FlagCheck(_size, before=True)]  # a number of examples, or a share of them
BatchSize = Annotated[PositiveInt | Literal["auto"], "a number of examples, or auto"]
Finite = Annotated[float, FiniteNumber()]
Share = Annotated[float, FiniteNumber(ge=0)]
Positive = Annotated[float, FiniteNumber(gt=0)]


# ---- what a flag is besides its type ---------------------------------------------------------------------------------

Heading = Literal["What to run", "Models", "Prompts", "Speed and machines", "Output"]


@dataclass(frozen=True, slots=True)
class Flag:
    """Metadata of the annotation of a field of `RunConfig`: what its type and default do not say.

    Attributes:
        help: description in --help and in the reference.
        spellings: names on the command line, by default `--` and the name of the field; with `/`, one for true and one
            for false, and `!` before a name that means false.
        metavar: placeholder of the value in --help.
        default: default of the command line, if it differs from that of the field.
        identity: whether another value makes another run: `always`, `if given` for flags that were added later, so that
            the same command still finds earlier runs, or `never`.
        stored: whether `run.json` has it; it has no folders of this machine and no flags of a session.
        heading: heading above it in --help.
        is_common: whether --help shows it; --help-all shows all flags.
    """

    help: str
    spellings: str = ""
    metavar: str = ""
    default: Any = None
    identity: Literal["always", "if given", "never"] = "never"
    stored: bool = True
    heading: Heading = "What to run"
    is_common: bool = False
