"""Count the test files that import internal modules of figeval: `python -m tests.internal_imports [-v]`.

Public are the names of `figeval` and of `figeval.testing`; other imports are internal, also through another test module
that passes such a name on. Files that compare a statistic or a parser with independent code are listed apart.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import figeval
from tests.parsed import parse

ROOT = Path(__file__).resolve().parent.parent
PUBLIC_NAMES = {*figeval.__all__, "testing"}
MAX_TEST_FILES = 34  # that import internal modules; both limits only fall
MAX_MODULES = 117  # internal ones that tests import
STATISTICS_AND_PARSERS = (
    *("figeval.metrics", "figeval.answers", "figeval.language", "figeval.io.json_files", "figeval.io.yaml_files"),
    *("figeval.wings.annotation.agreement", "figeval.wings.annotation.prediction_powered"),
    "figeval.wings.annotation.battles",
    *(
        "figeval.wings.comparison.exchange",
        "figeval.wings.comparison.detectable",
        "figeval.wings.contamination.statistics",
        "figeval.wings.report.reliability",
    ),
    "figeval.builtin.plugins.rating.rating_metrics",
    "figeval.builtin.plugins.classification.label_metrics",
    "figeval.builtin.plugins.causal.generation.sampling",
)
INDEPENDENT_CODE = {  # test file → what it compares a statistic or a parser with
    "tests/metrics/test_aggregation.py": "numpy's mean, and all rows at once where rows are added one by one",
    "tests/metrics/test_bootstrap.py": "all resamples of four clusters, and a loop that draws one by one",
    "tests/metrics/test_chance.py": "the mean over all orders of the guesses",
    "tests/metrics/test_class_metrics.py": "scikit-learn, and all ways to break ties",
    "tests/metrics/test_coverage.py": "scipy's binomial distribution, summed over all outcomes",
    "tests/metrics/test_discrimination.py": "scikit-learn, and a bootstrap of clusters",
    "tests/metrics/test_distances.py": "scipy, pair by pair",
    "tests/metrics/test_golden_metrics.py": "values of pytrec_eval, of printed tables, and worked out by hand",
    "tests/metrics/test_graded_ranking.py": "pytrec_eval, and definitions averaged over all orders of tied candidates",
    "tests/metrics/test_intervals.py": "scipy, and a regression by matrices",
    "tests/metrics/test_joint_metrics.py": "a loop over the single spans",
    "tests/metrics/test_languages.py": "numpy's correlation of the clusters, and simulations",
    "tests/metrics/test_neighbours.py": "all orders of tied distances",
    "tests/metrics/test_paired_compare.py": "scipy, and all sign patterns",
    "tests/metrics/test_paired_scores.py": "scipy, and simulations",
    "tests/metrics/test_ranking_metrics.py": "all orders of tied candidates",
    "tests/metrics/test_samples.py": "all choices of samples, and simulations",
    "tests/metrics/test_scripts.py": "rouge_score, sacrebleu and scikit-learn",
    "tests/metrics/test_seeds.py": "numpy's roots with scipy's quantiles, and simulations",
    "tests/metrics/test_simulated.py": "the simulations of bench/",
    "tests/metrics/test_span_metrics.py": "words counted by brute force",
    "tests/metrics/test_text_metrics.py": "sacrebleu",
    "tests/metrics/test_ties.py": "all orders of tied scores",
    "tests/plugins/test_sampling.py": "the filters of transformers, and the softmax",
    "tests/plugins/test_label_metrics.py": "scikit-learn, and DeLong's interval",
    "tests/test_jsonfile.py": "Python's json",
    "tests/test_words.py": "a regular expression that is right in scripts without marks",
    "tests/test_yamlfile.py": "PyYAML",
    "tests/wings/annotation/test_agreement.py": "scikit-learn, scipy, and all pairs of ratings",
    "tests/wings/annotation/test_battle_strengths.py": "choix, scipy's optimiser, and simulations",
    "tests/wings/annotation/test_prediction_powered.py": "values of ppi_py, and simulations",
    "tests/wings/report/test_reliability.py": "scikit-learn",
    "tests/wings/comparison/test_detectable.py": "scipy, all permutations, and simulations",
    "tests/wings/contamination/test_contamination_statistics.py": "all orders of the texts",
}


def internal_modules(file: Path) -> set[str]:
    """Return the internal modules that a file imports."""
    modules = set()
    for node, _ in parse(file).imports:
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names if is_internal(alias.name)}
        elif node.module == "figeval":
            modules |= {f"figeval.{alias.name}" for alias in node.names if alias.name not in PUBLIC_NAMES}
        elif node.module and is_internal(node.module):
            submodules = {name for alias in node.names if is_module(name := f"{node.module}.{alias.name}")}
            modules |= submodules | ({node.module} if len(submodules) < len(node.names) else set())
    return modules


@cache
def is_module(name: str) -> bool:
    """Return whether a dotted name is a module, and not a value in one."""
    path = ROOT / name.replace("figeval.builtin.", "").replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def is_internal(module: str) -> bool:
    """Return whether a module is one of figeval's that nothing outside should import."""
    return module.startswith("figeval.") and not f"{module}.".startswith("figeval.testing.")


def reexported(file: Path) -> set[str]:
    """Return the internal modules whose names a file imports by way of other test modules."""
    modules = set()
    for node in parse(file).imports_from:
        if not (node.module or "").startswith("tests."):
            continue
        helper = ROOT / f"{(node.module or '').replace('.', '/')}.py"
        if not helper.is_file():
            continue
        origins = {
            alias.asname or alias.name: imported.module or ""
            for imported in parse(helper).imports_from
            for alias in imported.names
        }
        modules |= {origins[alias.name] for alias in node.names if is_internal(origins.get(alias.name, ""))}
    return modules


@cache
def internal_imports() -> dict[str, set[str]]:
    """Return the internal modules of each file of tests that imports some, by the path of the file."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    modules = {file.relative_to(ROOT).as_posix(): internal_modules(file) | reexported(file) for file in files}
    return {file: internal for file, internal in modules.items() if internal}


def counted_imports() -> dict[str, set[str]]:
    """Return the same without the files that compare with independent code."""
    return {file: modules for file, modules in internal_imports().items() if file not in INDEPENDENT_CODE}


def is_test(file: str) -> bool:
    return Path(file).name.startswith("test_")


def main() -> None:
    """Print the numbers, and with `-v` the files."""
    counted = counted_imports()
    tests = sorted(filter(is_test, counted))
    print(f"test files that import internal modules: {len(tests)}; other files: {len(counted) - len(tests)}")
    print(f"internal modules that tests import: {len(set().union(*counted.values()))}")
    print(f"test files that compare statistics and parsers with independent code: {len(INDEPENDENT_CODE)}")
    if "-v" in sys.argv:
        print(*tests, "", *(f"{file}: {code}" for file, code in INDEPENDENT_CODE.items()), sep="\n")


if __name__ == "__main__":
    main()
