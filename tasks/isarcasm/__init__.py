"""iSarcasmEval: intended sarcasm in English and Arabic. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import BackendRegistrar, SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `isarcasm:a_en`, `isarcasm:a_en_train` and so on; isarcasm_rows.py lists the parts."""
    register("isarcasm", f"{__name__}.isarcasm_rows:open")


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register the human ceiling: other people's votes on the test texts."""
    about = "five people's votes on the test texts of iSarcasmEval A and C: a human ceiling"
    register("isarcasm_third_party", f"{__name__}.third_party:ThirdParty", about)
