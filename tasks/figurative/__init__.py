"""FLUTE, Fig-QA and Figurative-NLI: figurative language as inference and choice. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import MetricRegistrar, SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the sources `flute:<split>`, `figqa:<split>` and `fignli:<figure>` (see figurative_rows.py)."""
    for name in ("flute", "figqa", "fignli"):
        register(name, f"{__name__}.figurative_rows:{name}")


@hookimpl
def register_metrics(register: MetricRegistrar) -> None:
    """Register the accuracies of labels with a good enough explanation (Chakrabarty et al. 2022, section 4)."""
    register("acc@0", f"{__name__}.explanations:label_accuracy", task_types=["generation"])
    for min_score in (50, 60):
        register(
            f"acc@{min_score}",
            f"{__name__}.explanations:explained_{min_score}",
            task_types=["generation"],
            argument="a model that compares explanations, by embeddings or by a score from 0 to 1",
        )
