"""The settings of retrieval augmentation, as task files and `--augment` give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, model_validator

from figeval.io.text import near

SIMILAR = 0.75  # how similar an unknown key must be to a known one to be a misspelling


def _named_none(value: Any) -> Any:
    return "none" if value is None else value  # flags and YAML parse the word "none" as None


Addition: TypeAlias = Literal["concepts", "neighbours", "outline", "none"]


class Augmentation(BaseModel):
    """The text that is added to every example, and its source (`augment` of a task file, `--augment`).

    Further keys are options of the retriever, as `--model_args` gives those of a model.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, str | int | float | bool | None] = Field(init=False)

    add: Annotated[Addition, BeforeValidator(_named_none, json_schema_input_type=Addition | None)] = Field(
        description="`concepts`, the content words of the nearest answers; `neighbours`, the answers themselves; "
        "`outline`, the outlines of the nearest examples; or `none`, which switches off that of a task file."
    )
    retriever: str = Field("minilm", min_length=1, description="A model that embeds texts; other keys are its options.")
    split: str = Field(
        "train", alias="from", min_length=1, description="Split in which the nearest examples are searched."
    )
    k: PositiveInt = Field(10, description="Number of examples that are used.")

    @model_validator(mode="before")
    @classmethod
    def _without_misspellings(cls, values: Any) -> Any:
        keys = {field.alias or name for name, field in cls.model_fields.items()}
        for key in values if isinstance(values, Mapping) else ():
            if key not in keys and (meant := near(str(key), keys, cutoff=SIMILAR)):
                raise ValueError(f"unknown key {key!r}{meant}")
        return values

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the retriever."""
        return self.__pydantic_extra__
