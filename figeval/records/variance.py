"""The split of the variance of sampled answers, as `run.json` has it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from figeval.records.stored_types import StoredInterval


class VarianceRecord(BaseModel):
    """The variance of one metric of a task that was asked several times, split into its components.

    A component is null where nothing tells it apart from others (figeval.metrics.variance).
    """

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)

    task: str
    metric: str
    samples: int = Field(description="samples of each answer")
    prompts: int
    items: int = Field(description="examples with a value for every prompt")
    mean: float = Field(description="over items, prompts and samples")
    low: float | None = Field(description="lower end of its 95 % interval over other items, samples and prompts")
    high: float | None = Field(description="upper end of this interval")
    stderr: float | None
    interval: StoredInterval
    sampling: float | None = Field(description="variance between samples of the same item and prompt")
    interaction: float | None = Field(description="variance of how well a prompt suits an item")
    between_items: float | None = Field(description="variance between items, within clusters if there are any")
    between_clusters: float | None = Field(description="variance between clusters of items")
    between_prompts: float | None = Field(description="variance between prompts")
    sampling_share: float | None = Field(description="share of the variance of the mean that is due to sampling")
    enough_samples: int | None = Field(description="samples with which this share would be at most a tenth")
