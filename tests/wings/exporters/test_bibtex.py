"""`--to bibtex`: what a table uses is cited once, by facts, in entries that BibTeX reads whatever a file says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import figeval
from figeval import Citation, OptionError
from tests.cli.conftest import Cli
from tests.finished_runs import finished, run, score, store, task

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "figeval/wings/exporters"
KEY = re.compile(r"^@\w+\{(.*),$", re.MULTILINE)
TEXTS = st.text(max_size=60) | st.text("{}\\%@#$^&~_,\"'- \naÅłß成", max_size=30)
HOSTILE = r'} @string{a = "b"} \input{x} % {{ $1^{} #~ "成語" \\'


def papers() -> dict[str, Citation]:
    read = yaml.safe_load((DATA / "papers.yaml").read_text(encoding="utf-8"))["papers"]
    return {key: Citation.model_validate(facts) for key, facts in read.items()}


def cited(runs: Any = (), **choices: Any) -> list[str]:
    text = figeval.export(runs, to="bibtex", **choices)
    assert text is not None
    return KEY.findall(text)


def of_tasks(folder: Path, *names: str) -> list[str]:
    """Return the keys for a run of these tasks, without those of figeval and of methods."""
    return [key for key in cited(store(folder / "run", run(*map(task, names)))) if key not in papers()]


# ---- the data --------------------------------------------------------------------------------------------------------


def test_every_paper_belongs_to_a_method_and_every_method_exists(cli: Cli) -> None:
    methods = yaml.safe_load((DATA / "methods.yaml").read_text(encoding="utf-8"))
    used = {key for keys_by_name in methods.values() for keys in keys_by_name.values() for key in keys}
    figeval_key, *keys = papers()
    assert used == set(keys)
    names = {metric["name"] for metric in json.loads(cli("ls", "metrics", "--json").out)} | {"auc"}
    for pattern in methods["metrics"]:
        assert any(re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) for name in names), pattern
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    figeval_paper = papers()[figeval_key]
    assert (figeval_paper.title, figeval_paper.authors) == (
        about["title"],
        tuple(author["name"] for author in about["authors"]),
    )
    assert str(figeval_paper.year) == str(about["date-released"])[:4]


# ---- what is cited ---------------------------------------------------------------------------------------------------


def test_a_run_cites_its_metrics_and_intervals_and_a_comparison_its_tests(tmp_path: Path) -> None:
    runs = [finished(tmp_path / model, "mini_retrieval", "mini_fables", model=model) for model in ("overlap", "tfidf")]
    every_score = cited(runs)
    assert every_score[0] == "the-figeval-developers-2026-figeval"
    assert {"mcsherry-najork-2008-computing", "wilson-1927-probable"} < set(every_score)
    assert not {"holm-1979-simple", "lin-2004-rouge"} & set(every_score)
    compared = cited(runs, layout="comparison", tasks="mini_fables", metrics="acc")
    assert compared == ["the-figeval-developers-2026-figeval", "mcnemar-1947-note", "holm-1979-simple"]
    assert "wilson-1927-probable" in cited(runs, layout="comparison", tasks="mini_fables", intervals=True)
    with pytest.raises(OptionError):
        cited(runs, tasks="mini_fables")


@pytest.mark.parametrize("choices", [{}, {"layout": "comparison"}])
def test_a_record_of_others_may_name_no_packages(choices: dict[str, str], tmp_path: Path) -> None:
    folder = store(tmp_path / "run", run(task("mini_fables"), provenance={"packages": None}))
    assert "the-figeval-developers-2026-figeval" in cited(folder, **choices)
    assert "figeval unknown" in str(figeval.export(folder, to="latex", layout="comparison"))


def test_the_layout_of_a_paper_needs_no_run(cli: Cli) -> None:
    keys = KEY.findall(cli("export", "--to", "bibtex", "--layout", "epic_table_10").out)
    assert keys == ["the-figeval-developers-2026-figeval", "ghosh-srivastava-2022-epic"]


def test_a_task_with_a_paper_of_its_own_cites_it(tmp_path: Path) -> None:
    assert of_tasks(tmp_path / "a", "epic_mcq", "epic_retrieval_all") == ["ghosh-srivastava-2022-epic"]
    assert set(of_tasks(tmp_path / "b", "meta4xnli_cometa")) == {
        "sanchez-bayona-agerri-2025-meta4xnli",
        "sanchez-bayona-agerri-2022-leveraging",
    }
    assert of_tasks(tmp_path / "c", "nli_mnli", "nli_snli_hard") == [
        "williams-etal-2018-broad",
        "gururangan-etal-2018-annotation",
    ]


def entries(folder: Path, *citations: Any) -> str:
    """Return the entries for tasks with these citations, without those of figeval and of methods."""
    fields = {"id": "row.id", "query": "row.q", "options": "row.o", "gold": "row.g"}
    names = [f"acme_{number}" for number in range(len(citations))]
    for name, citation in zip(names, citations, strict=True):
        content = {"name": name, "type": "choice", "data": {"test": "jsonl:rows.jsonl"}, "fields": fields}
        (folder / f"{name}.task.yaml").write_text(json.dumps({**content, "citation": citation}), encoding="utf-8")
    text = figeval.export(store(folder / "run", run(*map(task, names))), to="bibtex", include_path=folder)
    assert text is not None
    assert_readable(text)
    _, figeval_entry, *further_entries = re.split(r"^(?=@)", text, flags=re.MULTILINE)
    assert figeval_entry.startswith("@misc{the-figeval-developers")
    return "".join(entry for entry in further_entries if KEY.findall(entry)[0] not in papers())


def test_a_text_is_a_note_and_equal_texts_are_one(tmp_path: Path) -> None:
    text = entries(tmp_path, HOSTILE, "Acme 2026", "Acme 2026", "")
    assert KEY.findall(text) == ["string-a-b-input-x-1", "acme-2026"]
    assert "note = {Acme 2026}" in text


def test_a_task_without_a_publication_is_named(tmp_path: Path) -> None:
    text = figeval.export(store(tmp_path / "run", run(task("gone@short"))), to="bibtex")
    assert text is not None
    assert re.match(r"% .*gone short", text)
    assert_readable(text)


# ---- entries that BibTeX reads ---------------------------------------------------------------------------------------


def assert_readable(text: str) -> None:
    """Check that braces are balanced within each line of an entry, and that nothing stands between entries."""
    depth = 0
    for line in text.splitlines():
        assert depth or not line or line.startswith(("@", "}", "% ")), line
        for letter in line:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            assert depth >= 0, line
        assert depth <= 1, line
    assert depth == 0


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_no_text_ends_an_entry(tmp_path_factory: pytest.TempPathFactory, title: str, name: str, venue: str) -> None:
    author = name.replace(",", " ") or "A"
    facts = {"title": title or "-", "authors": [author, f"{author}, {author}"], "venue": venue, "year": 2025}
    entries(tmp_path_factory.mktemp("hostile"), facts, name, venue)


def test_capitals_and_accents_are_kept_and_equal_keys_told_apart(tmp_path: Path) -> None:
    authors = ["Järvelin, Kalervo", "Sørensen, Nathalie", "The A and B Group", "others"]
    facts = {"title": "e-SNLI and the LLMs of Danish", "authors": authors, "year": 2020}
    text = entries(tmp_path, facts, {**facts, "venue": "ACL"}, facts)
    assert KEY.findall(text) == ["jarvelin-etal-2020-snli", "jarvelin-etal-2020-snli-2"]
    assert r"author = {J{\"a}rvelin, Kalervo and S{\o}rensen, Nathalie and {The A and B Group} and others}" in text
    assert "title = {e-{SNLI} and the {LLMs} of {Danish}}" in text


@pytest.mark.system
def test_bibtex_and_latex_print_every_entry(tmp_path: Path, cli: Cli) -> None:
    if shutil.which("bibtex") is None or shutil.which("pdflatex") is None:
        pytest.fail("this test needs LaTeX and BibTeX: install the package texlive-latex-recommended")
    tasks, metrics = (
        [row["name"] for row in json.loads(cli("ls", kind, "--json").out)] for kind in ("tasks", "metrics")
    )
    record = run(*(task(name, scores=[*map(score, metrics)]) for name in tasks))
    hostile = {"title": HOSTILE, "authors": [HOSTILE, "Ž, Å"], "venue": HOSTILE, "year": 2025}
    text = entries(tmp_path, hostile, HOSTILE) + str(figeval.export(store(tmp_path / "all", record), to="bibtex"))
    (tmp_path / "all.bib").write_text(text, encoding="utf-8")
    for style in ("plain", "abbrv", "alpha"):
        (tmp_path / "all.tex").write_text(
            rf"\documentclass{{article}}\usepackage[T1]{{fontenc}}\begin{{document}}\nocite{{*}}"
            rf"\bibliographystyle{{{style}}}\bibliography{{all}}\end{{document}}"
        )
        latex = ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "all"]
        for command in (latex, ["bibtex", "all"], latex, latex):
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
            assert done.returncode == 0, done.stdout[-3000:]
        printed = (tmp_path / "all.bbl").read_text(encoding="utf-8", errors="replace").count(r"\bibitem")
        assert printed == len(KEY.findall(text)) > 40
