"""The settings of retrieval augmentation, as task files and `--augment` give them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt


def _named_none(value: Any) -> Any:
    return "none" if value is None else value  # flags and YAML parse the word "none" as None


Addition: TypeAlias = Literal["concepts", "neighbours", "outline", "none"]


class Augmentation(BaseModel):
    """The text that is added to every example, and its source (`augment` of a task file, `--augment`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    add: Annotated[Addition, BeforeValidator(_named_none, json_schema_input_type=Addition | None)] = Field(
        description="`concepts`, the content words of the nearest answers; `neighbours`, the answers themselves; "
        "`outline`, the outlines of the nearest examples; or `none`, which switches off that of a task file."
    )
    retriever: str = Field("minilm", min_length=1, description="A model that embeds texts.")
    split: str = Field(
        "train", alias="from", min_length=1, description="Split in which the nearest examples are searched."
    )
    k: PositiveInt = Field(10, description="Number of examples that are used.")
