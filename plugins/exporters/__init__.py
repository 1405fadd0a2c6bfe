"""File formats for finished runs: tables of their scores, and the formats of other tools with every answer."""

from __future__ import annotations

from figeval.hooks import ExporterRegistrar, hookimpl


@hookimpl
def register_exporters(register: ExporterRegistrar) -> None:
    """Register two formats for programs, two for people, one with published numbers, and those of other tools."""
    register("csv", f"{__name__}.long_format:export_csv")
    register("json", f"{__name__}.long_format:export_json")
    register("latex", f"{__name__}.latex:export")
    register("markdown", f"{__name__}.markdown:export")
    register("published", f"{__name__}.markdown:export_published")
    register("every_eval_ever", f"{__name__}.every_eval_ever:export")
    register("inspect", f"{__name__}.inspect_log:export")
    register("lm_eval", f"{__name__}.lm_eval_results:export")
    register("model_index", f"{__name__}.hub:model_index")
    register("eval_results", f"{__name__}.hub:eval_results")
    register("parquet", f"{__name__}.parquet:export")
