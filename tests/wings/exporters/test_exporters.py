"""Exporters: several runs in one table that loads, compiles and says what it leaves out."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import figeval
from figeval import Interval, OptionError, RunRecord, UnknownName, hookimpl
from tests.finished_runs import model, run, score, store, task

Export = Callable[..., str]


@pytest.fixture
def export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Return a function that exports hand-made records: `export("csv", record)`."""

    def exported(form: str, *records: RunRecord, **choices: Any) -> str:
        folder = tmp_path_factory.mktemp("runs")
        folders = [store(folder / str(n), record) for n, record in enumerate(records)]
        text = figeval.export(folders, to=form, **choices)
        assert text is not None
        return text

    return exported


TWO_RUNS = (
    run(task("proverbs", n=40), task("pairs", task_type="pairs", route="by_head"), **model("minilm")),
    run(task("proverbs", n=40, scores=[score(value=-0.5, low=None, high=None)]), **model("tf_idf & co")),
)


def test_the_papers_numbers_stand_beside_ours(export: Export) -> None:
    text = export("published", run(task("epic_retrieval_all", scores=[score("acc"), score("recall@5")])))
    head, _, first, second = text.splitlines()[:4]
    assert head.endswith("| published |")
    assert "Sentence-BERT 0.134" in first
    assert first.count("Sentence-BERT") == 1  # both versions of the paper print it
    assert second.endswith("| – |")
    assert "- epic_retrieval_all: ePiC, ACL 2022, Table 4: off the shelf, cosine" in text


def test_numbers_of_two_versions_of_a_paper_are_told_apart(export: Export) -> None:
    """Version 1 has three models, the version in print two of them with other numbers."""
    line = export("published", run(task("epic_mcq", scores=[score("acc")]))).splitlines()[2]
    assert line.endswith("| ACL 2022: RoBERTa 0.230, Human 0.787; arXiv v1: BERT 0.260 |")


def test_a_plugin_may_bring_another(export: Export, install: Callable[..., None]) -> None:
    plugin = ModuleType("counting_exporter")

    @hookimpl
    def register_exporters(register: Any) -> None:
        register("count", lambda runs: str(len(runs)))

    plugin.register_exporters = register_exporters  # type: ignore[attr-defined]
    install(plugin)
    assert export("count", *TWO_RUNS) == "2"
    with pytest.raises(UnknownName, match="unknown format 'cuont'; did you mean 'count'"):
        export("cuont", *TWO_RUNS)


# ---- for programs ---------------------------------------------------------------------------------------------------


def test_csv_has_one_number_per_row(export: Export) -> None:
    rows = list(csv.DictReader(io.StringIO(export("csv", *TWO_RUNS))))
    assert [(row["kind"], row["model"], row["task"], row["metric"], row["value"]) for row in rows] == [
        ("model", "minilm", "proverbs", "acc", "0.25"),
        ("baseline", "chance", "proverbs", "acc", "0.2"),
        ("baseline", "overlap", "proverbs", "acc", "0.125"),
        ("baseline", "overlap", "proverbs", "mrr", "0.3"),
        ("model", "minilm", "pairs", "acc", "0.25"),
        ("baseline", "chance", "pairs", "acc", "0.2"),
        ("baseline", "overlap", "pairs", "acc", "0.125"),
        ("baseline", "overlap", "pairs", "mrr", "0.3"),
        ("model", "tf_idf & co", "proverbs", "acc", "-0.5"),
        ("baseline", "chance", "proverbs", "acc", "0.2"),
        ("baseline", "overlap", "proverbs", "acc", "0.125"),
        ("baseline", "overlap", "proverbs", "mrr", "0.3"),
    ]
    assert rows[0]["route"] == "by_cosine"
    assert rows[-4]["low"] == "", "unknown is empty, not 0"


def test_json_keeps_types_and_unknowns(export: Export) -> None:
    record = run(
        task(status="failed", scores=[], baselines=[]),
        macro=[{"suite": "s", "metric": "acc", "value": None, "tasks": 2}],
    )
    failed, macro = json.loads(export("json", record))
    assert (failed["task"], failed["status"], failed["metric"], failed["value"]) == ("proverbs", "failed", None, None)
    assert (macro["kind"], macro["task"], macro["metric"], macro["value"]) == ("macro mean", "s", "acc", None)
    assert json.loads(export("json", TWO_RUNS[0]))[0]["clusters"] == 20


# ---- for people -----------------------------------------------------------------------------------------------------

MARKDOWN = """\
| task | metric | n | chance | overlap | minilm | tf_idf & co |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
| proverbs | acc | 40 | 0.200 | 0.125 | 0.250 [0.100, 0.500] | -0.500 |
| pairs | acc | 40 | 0.200 | 0.125 | 0.250 [0.100, 0.500] | – |

- 95 % intervals in brackets, over clusters if examples are not independent.
- minilm: choice by_cosine, pairs by_head
- tf_idf & co: choice by_cosine
"""


def test_markdown(export: Export) -> None:
    assert export("markdown", *TWO_RUNS) == MARKDOWN


def test_unequal_clusters_are_told(export: Export) -> None:
    uneven = run(task(scores=[score(clusters=139, effective_clusters=29.96), score("mrr", effective_clusters=19.8)]))
    warning = "proverbs: 139 clusters of unequal size are equivalent to 30 equal ones"
    assert export("markdown", uneven).count(warning) == export("latex", uneven).count(warning) == 1
    assert "20 clusters" not in export("markdown", uneven)  # 19.8 are hardly fewer
    assert [row["effective_clusters"] for row in json.loads(export("json", uneven))[:2]] == [29.96, 19.8]
    assert "29.96" in export("csv", uneven)


def test_unreliable_intervals_are_marked(export: Export) -> None:
    unreliable = run(task(scores=[score(interval=Interval("wilson on effective n", reliable=False))]))
    assert r"| 0.250 [0.100, 0.500]\* |" in export("markdown", unreliable)
    assert r"{\scriptsize [0.100, 0.500]*}" in export("latex", unreliable)
    for form, mark in (("markdown", r"\*"), ("latex", "*")):
        assert f"unreliable intervals ({mark}): fewer than 10 effective clusters" in export(form, unreliable)
        assert "unreliable" not in export(form, run(task()))


MEAN = run(task(scores=[score(sd=0.02), score("f1", sd=0.03, low=None, high=None)]))


def test_a_mean_over_seeds_has_their_standard_deviation(export: Export) -> None:
    markdown, latex = export("markdown", MEAN), export("latex", MEAN)
    assert "| 0.250 ± 0.020 [0.100, 0.500] |" in markdown
    assert "| 0.250 ± 0.030 |" in markdown
    assert "- ± is the standard deviation over seeds; intervals of such means" in markdown
    assert r"0.250 $\pm$ 0.020 {\scriptsize [0.100, 0.500]} \\" in latex
    assert "\n$\\pm$ is the standard deviation over seeds" in latex
    assert not any("standard deviation" in export(form, *TWO_RUNS) for form in ("markdown", "latex"))
    assert json.loads(export("json", MEAN))[0]["sd"] == 0.02


def test_runs_on_other_examples_never_share_a_line(export: Export) -> None:
    limited = task(n=10, scores=[score(n=10)], warnings=["--limit: the first 10 of 40"])
    other = task(examples_sha256="1" * 64)
    text = export("markdown", run(task(), **model("a")), run(limited, **model("b")), run(other, **model("c")))
    table = [line for line in text.splitlines() if line.startswith("| proverbs")]
    assert [line.count("–") for line in table] == [2, 2, 2]
    assert "- b: proverbs: --limit: the first 10 of 40" in text


def test_two_runs_of_one_model_are_told_apart(export: Export) -> None:
    first, second = run(task(), identity="11111111"), run(task(), identity="22222222")
    head = export("markdown", first, second).splitlines()[0]
    assert "| a-model (11111111) | a-model (22222222) |" in head


def test_a_baseline_that_was_also_run_has_one_column(export: Export) -> None:
    """With another value, as `random` has with another seed, it is not the same one."""
    overlap = [score(value=0.125), score("mrr", 0.3)]
    ours, trivial = run(task(), task("pairs"), **model("ours")), run(task(scores=overlap), **model("overlap"))
    head, _, first, *_, last = export("markdown", ours, trivial).split("\n\n")[0].splitlines()
    assert head == "| task | metric | n | chance | ours | overlap |"
    assert first.endswith("| 0.200 | 0.250 [0.100, 0.500] | 0.125 [0.100, 0.500] |")
    assert last.endswith("| pairs | acc | 40 | 0.200 | 0.250 [0.100, 0.500] | 0.125 [0.100, 0.500] |".lstrip("| "))
    other = run(task(scores=[score(value=0.5)]), **model("overlap"))
    assert "| chance | overlap | ours | overlap |" in export("markdown", ours, other)


def test_the_floor_of_one_run_is_a_baseline_and_has_no_line(export: Export) -> None:
    floor = {"baseline": "no_query", "scores": [score(value=0.2)]}
    about = {"kind": "probe", "of": "proverbs", "variant": "no_query", "is_floor": True, "baselines": []}
    record = run(task(baselines=[floor]), task("proverbs@no_query", **about))
    text = export("markdown", record)
    assert "| task | metric | n | no_query | a-model |" in text
    assert "| proverbs@no_query |" not in text
    both = export("markdown", record, run(task(), **model("b")))
    assert "| proverbs@no_query |" in both
    assert "| no_query |" not in both


CONCEPTS = {"augment": {"add": "concepts", "from": "train", "k": 3, "retriever": "minilm"}}
AUGMENTATION_NOTE = "a-model + concepts: augmented: concepts of the 3 nearest training examples (minilm)"


def test_runs_that_were_asked_in_another_way_are_told_apart_by_that(export: Export) -> None:
    runs = run(task(settings=CONCEPTS), identity="11111111"), run(task(), identity="22222222")
    text = export("markdown", *runs)
    assert "| a-model + concepts | a-model |" in text.splitlines()[0]
    assert f"\n- {AUGMENTATION_NOTE}\n" in text
    assert f"\n{AUGMENTATION_NOTE}.\n" in export("latex", *runs)
    wide = export("latex", *runs, width="16cm")
    assert "Task & Metric & $n$ & chance & overlap & a-model + concepts & a-model" in wide


def test_programs_read_how_the_model_was_asked_and_baselines_were_not(export: Export) -> None:
    first, trivial, *_ = json.loads(export("json", run(task(settings=CONCEPTS))))
    assert first["conditions"] == "augmented: concepts of the 3 nearest training examples (minilm)"
    assert (trivial["kind"], trivial["conditions"]) == ("baseline", None)


def test_a_task_without_scores_is_told(export: Export) -> None:
    text = export("markdown", run(task(status="failed", scores=[])))
    assert "- a-model has no scores on proverbs: failed" in text


def test_nothing_breaks_a_markdown_table(export: Export) -> None:
    text = export("markdown", run(task(), **model("a|b\nc")))
    assert r"a\|b c" in text
    assert all(line.startswith("|") for line in text.split("\n\n")[0].splitlines())


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("tf_idf", "tf_idf"),
        ("__init__ _a_", r"\_\_init\_\_ \_a\_"),
        ("# a", r"\# a"),
        ("- a", r"\- a"),
        ("1. a", r"1\. a"),
        ("-0.5", "-0.5"),
        ("$x$", r"\$x\$"),
        ("https://a.b www.a.b", "https:&NoBreak;//a.b www&NoBreak;.a.b"),
        ("@a task@b #1", "@&NoBreak;a task@b #&NoBreak;1"),
    ],
)
def test_nothing_is_marked_up_or_linked_in_markdown(export: Export, name: str, shown: str) -> None:
    """GitHub also links addresses, users and issues that no markup encloses."""
    assert f"| {shown} |" in export("markdown", run(task(), **model(name))).splitlines()[0]


LATEX = r"""% \usepackage{booktabs}
% \usepackage[T1]{fontenc}
\begin{table}
\centering\small
\setlength{\tabcolsep}{4pt}
\setlength{\belowcaptionskip}{6pt}
\caption{Scores of minilm, tf\_idf \& co on $n = 40$ examples, with trivial baselines;
in brackets the 95\,\% interval, over clusters if examples are not independent.}
\label{tab:figeval}
\begin{tabular}{@{}l l r r r r r@{}}
\toprule
Task & Metric & $n$ & chance & overlap & minilm & tf\_idf \& co \\
\midrule
proverbs & acc & 40 & 0.200 & 0.125 & 0.250 {\scriptsize [0.100, 0.500]} & $-$0.500 \\
pairs & acc & 40 & 0.200 & 0.125 & 0.250 {\scriptsize [0.100, 0.500]} & -- \\
\bottomrule
\end{tabular}
\par\smallskip
\parbox{\linewidth}{\raggedright\footnotesize
minilm: choice by\_cosine, pairs by\_head.\par
tf\_idf \& co: choice by\_cosine.
}
\end{table}
"""


def test_latex(export: Export) -> None:
    assert export("latex", *TWO_RUNS) == LATEX


def test_authors_choose_label_caption_names_and_both_columns(export: Export) -> None:
    names = {
        "minilm": "MiniLM",
        "tf_idf & co": "TF-IDF",
        "overlap": "word overlap",
        "proverbs": "ePiC",
        "acc": "accuracy",
    }
    choices = {"label": "main", "caption": r"Results on \textsc{ePiC}.", "names": names, "wide": True}
    for layout in ("", "comparison"):
        text = export("latex", *TWO_RUNS, layout=layout, **choices)
        assert text.count(r"\begin{table*}") == text.count(r"\end{table*}") == 1
        assert r"\caption{Results on \textsc{ePiC}.}" in text and r"\label{tab:main}" in text
        assert re.search(r"word overlap\}? & \{?MiniLM\}? & \{?TF-IDF\}? \\", text)
        assert re.search(r"^ePiC & accuracy & ", text, re.MULTILINE)
        assert "Tasks in figeval: ePiC (proverbs)." in text
    signs = export("latex", *TWO_RUNS, layout="comparison", names={"proverbs": "A & B_c"})
    assert r"Tasks in figeval: A \& B\_c (proverbs)." in signs
    # Renamed or not, a trivial model that is itself among the runs has one column.
    assert export("latex", *TWO_RUNS) == LATEX


@pytest.mark.parametrize(
    "choices",
    [
        {"names": {"nope": "x"}},
        {"caption": "open {"},
        {"caption": "} {"},
        {"caption": "5 % more"},
        {"layout": 5},
        {"intervals": "perhaps"},
        {"names": ["a"]},
        {"against": "x", "layout": "comparison"},
        {"label": "a b"},
        {"width": "wide"},
        {"width": "0cm"},
    ],
    ids=str,
)
def test_choices_of_authors_that_latex_could_not_set(export: Export, choices: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        export("latex", *TWO_RUNS, **choices)


CAPTIONS = {
    "a \\": "ends with a backslash",
    "a \\.": "ends with a backslash",  # the full stop is removed
    "a & b": "the caption has a &; write \\& for the sign",
    "a # b": "the caption has a #; write \\# for the sign",
    "a_b": "the caption has a _ outside of mathematics; write \\_",
    "a $b$ c^2": "the caption has a ^ outside of mathematics",
    "$\\text{a_b}$": "outside of mathematics",
    "costs $5": "are not in pairs; write \\$ for the sign",
    "\\textbf{a$b} c$": "are not in pairs; write \\$ for the sign",
    "\\(a$": "are not in pairs; write \\$ for the sign",
    "\\emph{a": "braces of the caption are not in pairs",
    "a\u202eb": "the caption has U+202E, which cannot be seen; remove it",
    "a\x1b[1mb": "the caption has U+001B, which cannot be seen; remove it",
}


@pytest.mark.parametrize(("caption", "problem"), CAPTIONS.items(), ids=map(ascii, CAPTIONS))
def test_captions_that_would_break_a_document(export: Export, caption: str, problem: str) -> None:
    with pytest.raises(OptionError, match=re.escape(problem)):
        export("latex", *TWO_RUNS, caption=caption)


@pytest.mark.parametrize(
    "caption",
    [
        r"A \& B\_1, 5\,\% of \$5, \#1",
        r"$a_1^2$, \(b_2\) and \ensuremath{c_3}",
        r"\textbf{a $x_{1}$} of $\text{all $n_1$}$",
        r"See \ref{tab:a_b}, \citep[p.~3]{key_1} and \href{https://a.b/c_d?e&f}{here}",
        r"\'Etude in \LaTeX{} \{a\}\\",
    ],
)
def test_captions_are_latex(export: Export, caption: str) -> None:
    assert rf"\caption{{{caption}.}}" in export("latex", *TWO_RUNS, caption=caption)


def test_a_label_may_have_its_prefix(export: Export) -> None:
    for layout in ("", "comparison"):
        assert r"\label{tab:main}" in export("latex", *TWO_RUNS, layout=layout, label="tab:main")


@pytest.mark.parametrize("name", ["成語", "модель", "μ-LM"])
def test_letters_that_pdflatex_lacks_need_another_engine(export: Export, name: str) -> None:
    text = export("latex", *TWO_RUNS, names={"minilm": name})
    (comment,) = re.findall(r"^% needs LuaLaTeX or XeLaTeX, and a \\setmainfont with these letters: (.*)$", text, re.M)
    assert set(comment) == set(name) - set("-LM")
    assert r"% \usepackage{fontspec}" in text and "fontenc" not in text


@pytest.mark.parametrize("width", ["120pt", "345pt", "16cm", "40in"])
def test_every_number_of_a_table_that_is_split_is_in_one_part(export: Export, width: str) -> None:
    """Seven systems on 50 tasks: each part repeats tasks and metrics, and no number is lost or printed twice."""
    runs = [
        run(
            *(task(f"task_{row}", scores=[score(value=(row + system) / 100)]) for row in range(50)),
            **model(f"m{system}"),
        )
        for system in range(7)
    ]
    text = export("latex", *runs, width=width)
    rows = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if line.startswith(r"task\_")]
    numbers = [(row[0], cell.split()[0]) for row in rows for cell in row[3:] if "scriptsize" in cell]
    expected = [(rf"task\_{row}", f"{(row + system) / 100:.3f}") for row in range(50) for system in range(7)]
    assert sorted(numbers) == sorted(expected)
    assert text.count(r"\begin{table}") > 1 and text.count(r"\label{tab:figeval}") == 1


def test_latex_lines_have_as_many_cells_as_columns_whatever_the_names(export: Export) -> None:
    strange = r"a&b%c$d#e_f{g}h~i^j\k<l>|m" + "\n%"
    baseline = {"baseline": "x & y", "scores": [score(value=-0.1)]}
    record = run(task("p_q", baselines=[baseline], warnings=["two\nlines"]), **model(strange))
    text = export("latex", record)
    columns = len(re.search(r"\\begin\{tabular\}\{@\{\}([lr ]+)@", text).group(1).split())
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", line)) for line in body] == [columns - 1] * 2
    outside = re.sub(r"\\[&%$#_{}]|\\text\w+\{\}", "", " ".join(body))
    assert not set("%#_~^<>|") & set(outside)
    assert "p\\_q: two lines." in text
    assert "$-$0.100" in text


@pytest.mark.parametrize("name", ["[1cm]", "*x"])
def test_latex_lines_are_no_arguments_of_the_lines_before(export: Export, name: str) -> None:
    text = export("latex", run(task("a"), task(name)))
    assert f"\n{{}}{name} & acc" in text


def test_latex_names_the_range_of_n(export: Export) -> None:
    record = run(task("a"), task("b", n=7, scores=[score(n=7)]))
    assert "on $n = 7$ to $40$ examples" in export("latex", record)
    assert r"\caption{Scores of a-model, with trivial" in export("latex", run(task(scores=[])))


FEW_ANSWERS = task(
    scores=[score(value=1.0, n=10), score("acc_of_all"), score("parse_rate")], counts={"ok": 10, "empty": 30}
)


@pytest.mark.parametrize("position", [0, 1])
def test_a_score_of_the_answered_examples_says_their_number(export: Export, position: int) -> None:
    """Whatever the order of the runs, and without another run or a trivial model that answers all."""
    runs = [run(task(), **model("whole"))]
    runs.insert(position, run(FEW_ANSWERS, **model("easy")))
    alone = run(FEW_ANSWERS.model_copy(update={"baselines": []}), **model("easy"))
    for form, cell in (("markdown", "1.000 [0.100, 0.500] (n = 10)"), ("latex", r"[0.100, 0.500] ($n = 10$)}")):
        for text in (export(form, *runs), export(form, alone)):
            (line,) = (line for line in text.splitlines() if re.search(r"1\.000(?!0)", line))
            assert cell in line
            assert re.search(r"proverbs [&|] acc [&|] 40 ", line)
            assert text.count("(n = 10)") + text.count("($n = 10$)") == 1
            assert "proverbs: only 10 of 40 examples have an answer (acc)" in re.sub("(?m)^%.*", "", text)


def test_examples_that_a_metric_does_not_count_are_not_unanswered(export: Export) -> None:
    pairs = task(scores=[score("acc_strict", n=20)], baselines=[], counts={"ok": 40})
    text = export("markdown", run(pairs))
    assert "| proverbs | acc_strict | 20 |" in text
    assert "answer" not in text


def test_a_mean_over_seeds_with_different_answers_says_so(export: Export) -> None:
    unequal = score(sd=0.3, low=None, high=None, n=30, interval="none: not the same examples answered")
    for form in ("markdown", "latex"):
        text = export(form, run(task(scores=[unequal])))
        assert "proverbs: the seeds answered different examples, one of them only 30 of 40 (acc)" in text


def test_what_changes_how_a_number_is_read_is_in_the_float(export: Export) -> None:
    unreliable = score(interval=Interval("wilson on effective n", reliable=False))
    languages = [{"language": name, "scores": [score(n=20)], "baselines": []} for name in ("en", "zh")]
    record = run(task(scores=[unreliable], languages=languages, n=10, available=40), config={"limit": 10})
    text = export("latex", record)
    caption = text.partition(r"\caption{")[2]
    assert "\n-{}-limit 10: the first examples, not a random sample." in text.partition(r"\parbox{")[2]
    assert "proverbs: the unweighted mean over en, zh." in caption
    assert "unreliable intervals (*): fewer than 10 effective clusters." in caption


def run_in_languages() -> RunRecord:
    """A task in two languages with kinds of options, and one of neither."""
    languages = [
        {"language": name, "scores": [score(value=value, n=20)], "baselines": []}
        for name, value in (("en", 0.5), ("zh", 0.1))
    ]
    kinds = [
        {
            "value": value,
            "offered": 40,
            "examples": 40,
            "chosen": score("chosen", 0.3),
            "chosen_wrong": score("chosen_wrong", wrong, low=None, high=None, interval="none: fewer than 40 clusters"),
            "expected_wrong": 0.5,
        }
        for value, wrong in (("ant_onym", 0.6), ("right", None))
    ]
    choices = [{"key": "kind", "answered": 40, "wrong": 30, "kinds": kinds}]
    over_languages = [score(value=0.3, interval="over languages")]
    return run(task("fables", languages=languages, choices=choices, scores=over_languages), task("plain"))


def test_languages_have_a_line_each_above_their_mean(export: Export) -> None:
    text = export("markdown", run_in_languages())
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| fables")]
    assert [line[0] for line in lines[:3]] == ["| fables (en)", "| fables (zh)", "| fables"]
    assert [line[-1] for line in lines[:3]] == [f"{value} [0.100, 0.500] |" for value in ("0.500", "0.100", "0.300")]
    assert "- fables: the unweighted mean over en, zh" in text
    assert r"fables (zh) & acc & 20 &" in export("latex", run_in_languages())
    rows = list(csv.DictReader(io.StringIO(export("csv", run_in_languages()))))
    assert [(row["kind"], row["value"]) for row in rows if row["task"] == "fables" and row["metric"] == "acc"][:3] == [
        ("model (en)", "0.5"),
        ("model (zh)", "0.1"),
        ("model", "0.3"),
    ]


def test_kinds_of_options_are_a_table_of_their_own(export: Export) -> None:
    text = export("markdown", run_in_languages())
    assert "| fables | kind: ant_onym | 40 | a-model | 0.300 [0.100, 0.500] | 0.600 | 0.500 |" in text
    assert "| fables | kind: right | 40 | a-model | 0.300 [0.100, 0.500] | – | – |" in text
    latex = export("latex", run_in_languages(), width="16cm")
    assert r"fables & kind: ant\_onym & 40 & a-model & 0.300 {\scriptsize [0.100, 0.500]} & 0.600 & 0.500 \\" in latex
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 2
    rows = json.loads(export("json", run_in_languages()))
    shares = {(row["kind"], row["metric"]): row["value"] for row in rows if row["kind"].startswith("options")}
    assert shares["options (kind: ant_onym)", "chosen_wrong"] == 0.6
    assert shares["options (kind: right)", "expected_wrong"] == 0.5
    assert "kind:" not in export("markdown", *TWO_RUNS) + export("latex", *TWO_RUNS) + export("csv", *TWO_RUNS)
