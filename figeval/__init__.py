"""figeval: the evaluation harness for figurative language.

The names for notebooks and plugins are here and in `figeval.testing`; nothing else is public. Modules are loaded on
first use, so that `import figeval` is fast; `__init__.pyi` has the same names for type checkers.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

_PUBLIC = {
    "figeval.wings.annotation.api": "AnnotationItems JudgedItems export_items import_judgements judge_items",
    "figeval.wings.annotation.tables": "AnnotationResults",
    "figeval.wings.check.api": "Gate check",
    "figeval.wings.checklist.api": "Checklist checklist",
    "figeval.wings.comparison.api": "Comparison compare",
    "figeval.wings.contamination.api": "Contamination contamination",
    "figeval.wings.comparison.difficulty": "Difficulty difficulty",
    "figeval.wings.exporters.api": "export",
    "figeval.wings.report.api": "WrittenPage board report",
    "figeval.wings.comparison.power": "Power power",
    "figeval.api.runs": "Run load run",
    "figeval.api.scoring": "score",
    "figeval.wings.training.api": "Training train",
    "figeval.wings.verify.api": "Verification verify",
    "figeval.runs.harness": "Harness",
    "figeval.runs.recompute": "RecomputedRun RecomputedTask recompute",
    "figeval.runs.inquiry": "AnswerFile Inquiry",
    "figeval.runs.stored": "StoredAnswer StoredRun",
    "figeval.hooks": (
        "BackendRegistrar CommandLine ExporterRegistrar LayoutRegistrar LearnerRegistrar ListingRegistrar "
        "MetricRegistrar PresetRegistrar RouteRegistrar RunViewRegistrar SourceRegistrar TaskRegistrar "
        "TaskTypeRegistrar ViewRegistrar hookimpl"
    ),
    "figeval.plugins": "PluginManager",
    "figeval.registry": "Registry",
    "figeval.citations": "Citation",
    "figeval.spec": "SuiteSpec TaskSpec task",
    "figeval.types": (
        "JSON AnswerFormat Cloze Continuation Example Finish Inputs Interval Message PairLabel Prediction Prompt "
        "Reply Request Score ScoredSpan Span SpanQuery Status Text TextPair written"
    ),
    "figeval.prompts": "PromptContext PromptTemplate load_template",
    "figeval.answers.extract": "extract_choice extract_label",
    "figeval.answers.numbers": "extract_number",
    "figeval.answers.reply_text": "strip_reasoning",
    "figeval.task_types.base": "HIDDEN Metric TaskType metric",
    "figeval.task_types.fields": (
        "ColumnsField Field IndexField IndexesField LabelField NamedTextsField OptionalTextField PositiveField "
        "RowContext SpanField TextField TextsField"
    ),
    "figeval.task_types.given": "Given",
    "figeval.task_types.routes": (
        "Dialogue ReplyReader Route by_likelihood by_reply cosine_scores decide dot_scores pair_scores"
    ),
    "figeval.task_types.choice": "ChoiceExample",
    "figeval.task_types.ranking": "RankingExample",
    "figeval.task_types.pairs": "PairExample",
    "figeval.task_types.spans": "SpanExample",
    "figeval.task_types.joint": "JointExample",
    "figeval.task_types.generation": "GenerationExample",
    "figeval.task_types.similarity": "SimilarityExample",
    "figeval.models.capabilities": (
        "Chats Closes ComputesLoglikelihood Describes DeterministicByName Embeds EstimatesCost Fills "
        "FindsSpans Fingerprints Fits Generates HasRoom LabelsPairs OutputStream Outputs Part ScoresPairs ScoresTokens "
        "Unifies Writes"
    ),
    "figeval.language.words": "TaskWords",
    "figeval.reasoning": "Reasoning",
    "figeval.io.observer": "Observer report_loading report_share",
    "figeval.metrics": (
        "Batched Collective Measured PerLabel Statistic answered batched collective expected_over_ties mean_of "
        "quotient ratio tied_answers"
    ),
    "figeval.metrics.aggregation": "MetricAggregator",
    "figeval.metrics.catalogue": "MetricContext MetricModel",
    "figeval.models.chat_api": "ApiAnswer ApiOptions ChatApi api_backend",
    "figeval.models.model": "Model",
    "figeval.models.learner": "Batch Features Learner Setup",
    "figeval.data": "DataContext",
    "figeval.records.predictions": "PredictionRow",
    "figeval.records.schema": "RunRecord TaskRecord",
    "figeval.reporting.grid": "Column Grid Result Table data_frame",
    "figeval.reporting.progress": "open_display",
    "figeval.reporting.html": "html_document",
    "figeval.config": "RunConfig",
    "figeval.cli.flags": "shared_options",
    "figeval.cli.shared": "print_result",
    "figeval.runs.outputs": "check_output write_output",
    "figeval.errors": (
        "CapabilityError DataError DuplicateName FigevalError FigevalWarning FolderInUse MissingCopy ModelError "
        "NotFinished OptionError PluginError RecordError TaskError TrainError UnknownName"
    ),
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names.split()}
_WINGS = frozenset(os.listdir(os.path.join(os.path.dirname(__file__), "wings")))  # noqa: PTH118, PTH120, PTH208 - pathlib is slow


def _wing_of(name: str) -> str:
    """Return the wing that a public name belongs to, or an empty text for one of the kernel."""
    _, room, *rest = _MODULES[name].split(".")
    return rest[0] if room == "wings" else ""


def _is_here(name: str) -> bool:
    """Return whether a public name is of the kernel or of a wing that is installed."""
    wing = _wing_of(name)
    return not wing or wing in _WINGS


__all__ = sorted(filter(_is_here, _MODULES))


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'figeval' has no attribute {name!r}")
    if not _is_here(name):
        raise ImportError(f"figeval.{name} needs the folder figeval/wings/{_wing_of(name)}, which is not installed")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
