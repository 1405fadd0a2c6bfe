"""The shape of the house: who may import whom, and how long a thing may be. Read from the source, nothing is run."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import figeval
from tests import internal_imports
from tests.parsed import parse
from tests.wings_here import commands

ROOT = Path(__file__).resolve().parent.parent
PLUMBING = {
    "augmentation",
    "citations",
    "config",
    "defaults",
    "errors",
    "extras",
    "hooks",
    "io",
    "language",
    "plugins",
    "reasoning",
    "registry",
    "scores",
    "types",
}
STAGES = {"data", "spec", "prompts", "task_types", "answers", "models", "metrics", "records"}
ROOMS = {
    "task_types": {"prompts", "answers"},
    "spec": {"task_types"},
    "metrics": {"task_types"},
    "reporting": {"records"},
    "runs": STAGES,
    "testing": STAGES | {"runs", "reporting", "cli"},  # checked by what runs and commands do
    "api": STAGES | {"reporting", "runs"},
    "cli": STAGES | {"reporting", "runs", "api"},
}
MAY_IMPORT = {**{stage: set[str]() for stage in STAGES}, **ROOMS}
CLOSED_PACKAGES = {"figeval.api", "figeval.runs", "figeval.cli", "figeval.reporting"}  # no concern of tasks and plugins
PUBLIC_NAMES = set(figeval.__all__)  # what the hooks hand over; they name it by its public name, for type checkers only
OF_WINGS = {name for name, module in figeval._MODULES.items() if module.startswith("figeval.wings.")}
LONGEST_FUNCTION = 60
LONGEST_MODULE = 500
FEWEST_LINES = 60  # of a module that only one other imports; a shorter one belongs there, or is here with a reason
SMALL_MODULES = {
    "figeval.cli.model_card": "a class of tables, whose module the start of the command line does not import",
    "figeval.records.earlier_versions": "what files of earlier versions have otherwise, apart from what they have now",
    "figeval.cli.schema": "one command per module, which the command line imports by name",
    "figeval.testing.declarations": "what a task type declares, beside what it does",
    "tasks.epic.analysis.likeness": "one analysis per module, which the command imports by name",
    "tasks.epic.analysis.sizes": "one analysis per module, which the command imports by name",
}


@dataclass(frozen=True)
class Import:
    """One imported module; `inside` names the function that imports it, empty at module level."""

    file: Path
    line: int
    module: str
    inside: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def sources(*folders: str) -> list[Path]:
    """The modules of these folders; a room that is one module is its file."""
    files = (ROOT / f"{folder}.py" for folder in folders)
    package_files = (file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return sorted([*(file for file in files if file.is_file()), *package_files])


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(file: Path) -> tuple[Import, ...]:
    """Every import of a file, relative ones spelled out."""
    package = module_name(file).split(".")
    if file.name != "__init__.py":
        package.pop()

    def imported_modules(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)

    nodes = parse(file).imports
    return tuple(Import(file, node.lineno, name, inside) for node, inside in nodes for name in imported_modules(node))


def rooms_of_figeval() -> set[str]:
    entries = [entry for entry in (ROOT / "figeval").iterdir() if not entry.name.startswith("_")]
    return {entry.name.removesuffix(".py") for entry in entries if entry.is_dir() or entry.suffix == ".py"}


def test_every_room_has_a_rule() -> None:
    assert rooms_of_figeval() == PLUMBING | set(MAY_IMPORT) | {"builtin", "wings"}


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_stage_knows_no_other_stage(room: str) -> None:
    allowed = PLUMBING | MAY_IMPORT[room] | {room}
    wrong = []
    for file in sources(f"figeval/{room}"):
        for imported in imports(file):
            package, _, rest = imported.module.partition(".")
            if package == "figeval" and rest.partition(".")[0] not in allowed and rest not in OF_WINGS:
                # `from figeval import plugins`: a module of the plumbing, or a name that figeval itself exports
                wrong.append(str(imported))
            assert package not in {"tasks", "plugins", "templates", "results", "tests"}, str(imported)
    assert not wrong


def test_plumbing_knows_no_stage() -> None:
    wrong = [
        str(imported)
        for file in sources("figeval")
        if module_name(file).split(".")[1:2] and module_name(file).split(".")[1] in PLUMBING
        for imported in imports(file)
        if imported.module.startswith("figeval.") and imported.module.split(".")[1] not in PLUMBING
        if not (module_name(file) == "figeval.hooks" and imported.module.removeprefix("figeval.") in PUBLIC_NAMES)
    ]
    assert not wrong


# ---- wings -----------------------------------------------------------------------------------------------------------

SHARED_WINGS = {"comparison"}  # wings that others may import
KERNEL_MODULES_OF_WINGS = 42
IMPORTS_BETWEEN_WINGS = {  # (module, wing that it imports): a reason
    ("tasks.storal.building.audits", "audit"): "built items are audited, and the record of the build says how",
    ("plugins.heads.base_model", "training"): "heads are learners, which only a training uses",
    ("plugins.heads.biencoder", "training"): "heads are learners, which only a training uses",
    ("plugins.heads.joint_head", "training"): "heads are learners, which only a training uses",
    (
        "tasks.impli.building.build_impli_pairs",
        "annotation",
    ): "`benchmark build impli-pairs` writes sheets for annotators",
}


def wing_of(module: str) -> str:
    """The wing that a module belongs to, or an empty text."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["figeval", "wings"] and len(parts) > 2 else ""


def test_only_a_wing_imports_its_modules() -> None:
    """The kernel and other plugins reach a wing by its public names, which are imported when they are used."""
    between = set()
    for file in sources("figeval", "tasks", "plugins"):
        module = module_name(file)
        for imported in imports(file):
            wing = wing_of(imported.module)
            if wing and wing not in {wing_of(module), *(SHARED_WINGS if wing_of(module) else ())}:
                between.add((module, wing))
    modules = {module_name(file) for file in sources("figeval", "tasks", "plugins")}
    assert between == {(module, wing) for module, wing in IMPORTS_BETWEEN_WINGS if module in modules}


def test_wings_need_no_more_of_the_kernel_than_before() -> None:
    """Public names aside; a module that a wing imports cannot change without it. The limit only falls."""
    public = set(figeval._MODULES.values())
    modules = set()
    for file in sources("figeval/wings"):
        for imported in imports(file):
            module, _, name = imported.module.rpartition(".")
            if module.startswith("figeval.") and not module.startswith("figeval.wings"):
                is_public = module in public and figeval._MODULES.get(name) == module
                is_module = (ROOT / f"{imported.module.replace('.', '/')}.py").is_file()
                modules |= {imported.module} if is_module else set() if is_public else {module}
    assert len(modules) <= KERNEL_MODULES_OF_WINGS, sorted(modules)


def test_a_wing_is_a_plugin_that_imports_nothing_of_its_own() -> None:
    """Its names are strings, so that `figeval ls` and `--help` import no wing."""
    for folder in sorted((ROOT / "figeval/wings").iterdir()):
        if folder.is_dir() and folder.name[0] not in "_.":
            wing_imports = [str(imported) for imported in imports(folder / "__init__.py") if wing_of(imported.module)]
            assert not wing_imports


def test_tasks_and_plugins_say_from_figeval() -> None:
    """They are imported as figeval.builtin.…; their other name would make a second copy of the module."""
    for file in sources("tasks", "plugins"):
        room = module_name(file).partition(".")[0]
        for imported in imports(file):
            top = imported.module.partition(".")[0]
            relative = imported.module.startswith(f"{room}.") and not names_module_in_full(file, imported)
            assert relative or top not in {"tasks", "plugins", "templates", "results", "tests"}, str(imported)


def names_module_in_full(file: Path, imported: Import) -> bool:
    """Whether an import names its module in full, with no leading dot."""
    line = file.read_text(encoding="utf-8").splitlines()[imported.line - 1]
    return not re.match(r"\s*from\s+\.", line)


def test_plugins_are_families() -> None:
    """Folders, each one plugin; what a family shares, with itself or with others, has a public name."""
    entries = [entry for entry in (ROOT / "plugins").iterdir() if not entry.name.startswith("__")]
    assert not [entry.name for entry in entries if not (entry / "__init__.py").is_file()]
    assert not [str(file) for file in sources("plugins") if re.match(r"_(?!_init__)", file.name)]
    private = [
        imported for file in sources("plugins") for imported in imports(file) if imported.module.startswith("plugins.")
    ]
    assert not [str(imported) for imported in private if re.search(r"\._[a-z]", imported.module)]


def test_only_a_command_or_view_asks_for_the_pipeline_and_only_when_it_runs() -> None:
    """Of a benchmark, or of the bridge that runs tasks in lm-eval; a task there is imported by lm-eval alone."""
    for file in sources("tasks", "plugins"):
        is_command = any(
            imported.module in {"click", "figeval.Result"} and not imported.inside for imported in imports(file)
        )
        for imported in imports(file):
            if any(imported.module.startswith(f"{name}.") for name in CLOSED_PACKAGES):
                assert is_command or file.parent.name == "lm_eval_bridge", str(imported)
                assert imported.inside or (file.parent.name, file.name) == ("lm_eval_bridge", "tasks.py"), str(imported)


def test_nobody_imports_the_command_line() -> None:
    """But the command line itself, the commands of wings, which are imported by name, and what checks these."""
    for file in sources("figeval"):
        is_command = "wings" in file.parts and file.stem.endswith("command")
        checks_commands = file.parts[-2:] == ("testing", "wings.py")
        if "cli" not in file.parts and file.name != "__main__.py" and not (is_command or checks_commands):
            assert not [str(imported) for imported in imports(file) if imported.module.startswith("figeval.cli")]


# ---- what tests import ----------------------------------------------------------------------------------------------


@pytest.mark.wing(*commands().values())  # a name of a wing that is not here is no public name
def test_tests_import_no_more_internal_modules_than_before() -> None:
    """What a test imports cannot be moved without it. Both limits only fall."""
    imports = internal_imports.counted_imports()
    assert len(list(filter(internal_imports.is_test, imports))) <= internal_imports.MAX_TEST_FILES
    modules = set().union(*imports.values())
    assert len(modules) <= internal_imports.MAX_MODULES, sorted(modules)


@pytest.mark.wing(*commands().values())
@pytest.mark.parametrize("file", internal_imports.INDEPENDENT_CODE)
def test_what_is_compared_with_independent_code_is_a_statistic_or_a_parser(file: str) -> None:
    modules = internal_imports.internal_imports()[file]
    allowed = tuple(f"{module}." for module in internal_imports.STATISTICS_AND_PARSERS)
    assert not [module for module in modules if not f"{module}.".startswith(allowed)]


# ---- sizes -----------------------------------------------------------------------------------------------------------

PRODUCT = sources("figeval", "tasks", "plugins", "templates", "results", "bench")


def test_no_function_is_too_long() -> None:
    long = []
    for file in PRODUCT:
        for name, first, last in parse(file).functions:
            if last - first + 1 > LONGEST_FUNCTION:
                long.append(f"{file.relative_to(ROOT)}:{first} {name} has {last - first + 1} lines")
    assert not long


def test_no_module_is_too_long() -> None:
    counted = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8").count("\n") for file in PRODUCT}
    assert not {name: lines for name, lines in counted.items() if lines > LONGEST_MODULE}


@cache
def import_graph() -> dict[str, set[str]]:
    """Module → modules of ours that it imports, at module level or within functions, also for type checkers alone."""
    files = {module_name(file): file for file in sources("figeval", "tasks", "plugins")}

    def name_in_graph(name: str) -> str | None:
        name = name.replace("figeval.builtin.plugins", "plugins").replace("figeval.builtin.tasks", "tasks")
        while name and name not in files:
            name = name.rpartition(".")[0]
        return name or None

    imported_names = {
        name: {name_in_graph(imported.module) for imported in imports(file)} for name, file in files.items()
    }
    return {
        name: {other for other in targets if other is not None and other != name}
        for name, targets in imported_names.items()
    }


def test_no_import_cycles() -> None:
    """`prepare` raises `CycleError` with the modules of a cycle."""
    TopologicalSorter(import_graph()).prepare()


@pytest.mark.wing(*commands().values())  # it counts importers, some of which are in wings
def test_a_small_module_has_several_importers_or_a_reason() -> None:
    lines = {module_name(file): file.read_text(encoding="utf-8").count("\n") for file in PRODUCT}
    importers = Counter(other for targets in import_graph().values() for other in targets)
    packages = {module_name(file) for file in PRODUCT if file.name == "__init__.py"}
    small = {name for name, count in importers.items() if count == 1 and lines[name] < FEWEST_LINES}
    public = set(figeval._MODULES.values())  # imported by their public names
    assert small - packages - public == set(SMALL_MODULES)


PLACE = re.compile(r"(?<![\w.:/~{}])/" + r"(?:work|root|home/\w+|Users/\w+|tmp|mnt)/")
LEFT_BEHIND = {"build", "dist", "__pycache__"}
RUNS = (str(ROOT / "results"), "runs")
BINARY = {".gz", ".png", ".pdf", ".whl", ".pyc"}


def test_nothing_in_the_tree_names_a_place_on_somebodys_machine() -> None:
    lines = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip():.100}"
        for file in texts()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if PLACE.search(line)
    ]
    assert not lines


def test_what_counts_as_such_a_place() -> None:
    for text in ("open('/" + "root/x')", "see /" + "home/ann/data", "cd /" + "work/main"):
        assert PLACE.search(text)
    for text in ("https://example.org/" + "home/ann/", "~/" + "work/x", "/etc/passwd", "tmp_path / 'x'"):
        assert not PLACE.search(text)


def texts() -> Iterator[Path]:
    """The files of the project, without what tools leave behind."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in LEFT_BEHIND and (name[0] != "." or name == ".ci")]
        folders[:] = [name for name in folders if not name.endswith(".egg-info") and (folder, name) != RUNS]
        yield from (Path(folder, name) for name in names if name[0] != "." and Path(name).suffix not in BINARY)
