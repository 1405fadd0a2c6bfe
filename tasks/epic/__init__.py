"""ePiC: proverbs in context. See README.md in this folder for the source, licence, splits and known errors."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import (
    CommandLine,
    LayoutRegistrar,
    LearnerRegistrar,
    MetricRegistrar,
    PresetRegistrar,
    SourceRegistrar,
    TaskRegistrar,
    TaskTypeRegistrar,
    hookimpl,
)


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """Register the spans task type whose scoring uses the gold span of another row, as the released code does."""
    register(f"{__name__}.published_spans:PublishedSpans", "epic_published_spans")


@hookimpl
def register_learners(register: LearnerRegistrar) -> None:
    """Register the span learner for the task type with the published scoring, too."""
    register("epic_published_spans", "span", "figeval.builtin.plugins.heads.span_head:span", "as for span tasks")


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `epic:<name>`; epic_rows.py lists the names."""
    register("epic", f"{__name__}.epic_rows:open")


@hookimpl
def register_metrics(register: MetricRegistrar) -> None:
    """Register the paper's metrics of spans and of keywords in generated narratives."""
    for name in ("published_precision", "published_recall", "published_f1"):
        register(name, f"{__name__}.epic_metrics:{name}", task_types=["spans", "epic_published_spans"])
    for name in ("keyword_recall", "keyword_recall_lemma"):
        register(name, f"{__name__}.epic_metrics:{name}", task_types=["generation"])


@hookimpl
def register_presets(register: PresetRegistrar) -> None:
    """Register the training settings of the paper's models."""
    register(files(__name__) / "epic.presets.yaml")


@hookimpl
def register_layouts(register: LayoutRegistrar) -> None:
    """Register the tables of the paper."""
    register(files(__name__) / "epic.layouts.yaml")


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register `figeval benchmark build epic-mcq`, `analyze epic` and `diagnose`."""
    summary = "Choose the distractors of epic_mcq and epic_mcq_random again."
    cli.add_lazy_command("benchmark build epic-mcq", f"{__name__}.build:epic_mcq", summary)
    summary = "Recompute the paper's data analysis."
    cli.add_lazy_command("benchmark analyze epic", f"{__name__}.analysis.analyze_epic:epic", summary)
    summary = "Diagnose stored runs of ePiC, proverb by proverb."
    cli.add_lazy_command("benchmark diagnose", f"{__name__}.diagnosis.diagnose:diagnose", summary)
