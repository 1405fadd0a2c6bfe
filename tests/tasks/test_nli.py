"""NLI sets: the readers on files of our own, what the union keeps out, and counts on the real files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from figeval import DataContext, DataError, Harness
from figeval.builtin.tasks.impli import impli_rows as impli
from figeval.builtin.tasks.nli import nli_rows, parts, union
from figeval.cli.main import main
from figeval.data import Row
from figeval.data.cache import fetch
from figeval.data.sources import data_files
from tests.plugins.tiny import Workshop

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "tasks" / "nli.json").read_text(encoding="utf-8"))
LABELS = ("entailment", "neutral", "contradiction")

SICK = "pair_ID\tsentence_A\tsentence_B\tentailment_label\tsentence_A_dataset\tSemEval_set\r\n"
MED = "genre\tsentence1\tsentence2\tgold_label\n"
TAXI = "prem\thyp\tlabel\tannotated_label\tnegation_logic\tworld_knowledge\tgeneral_q2\tpairID\tgenre\n"
CAD = "sentence1\tsentence2\tgold_label\n"
CONJ = "\ufeffPremise\tHypothesis\tLabel\n"
FILES = {
    "mnli_sample/mnli_train.csv": "",
    "mnli_sample/mnli_validation.csv": "",
    "snli_sample/train.csv": "",
    "snli_sample/test.csv": "",
    **{f"esnli/{side}.{part}": "" for part in ("dev", "test") for side in parts.SIDES},
    **{f"cad_nli/all_combined/{part}.tsv": CAD for part in ("train", "dev", "test")},
    "sick/SICK.txt": SICK,
    "conjnli/adversarial_train_15k.tsv": CONJ,
    "conjnli/conj_dev.tsv": CONJ,
    "med/MED.tsv": MED,
    "taxinli/taxinli10k.tsv": TAXI,
    **{f"mnli_hard/MNLI{kind}HardWithHardTest/{side}.test": "" for kind in ("Matched", "Mismatched")
       for side in parts.SIDES},
    "mnli_hard/snli_1.0_test_hard.jsonl": "",
}  # fmt: skip

Small = Callable[..., DataContext]


def multinli_line(premise: str, hypothesis: str, label: str) -> str:
    """A line of the MultiNLI sample."""
    cell = f'For the statement, ""{premise}"", does the hypothesis ""{hypothesis}"" represent'
    return f'"{cell} entailment, contradiction, or neutrality?",{label},mnli\n'


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """`small(**{file: more})`: every file with its header only, but for what is added to it."""

    def make(added: dict[str, str]) -> DataContext:
        assert set(added) <= set(FILES)
        for file, header in FILES.items():
            path = tmp_path / file
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_bytes((header + added.get(file, "")).encode())
        return DataContext(folder=tmp_path, fetch=lambda _benchmark, path: tmp_path / path)

    return make


def texts(read: list[Row]) -> list[tuple[str, str, str]]:
    return [(row["premise"], row["hypothesis"], row["label"]) for row in read]


# ---- one file after the other ---------------------------------------------------------------------------------------


def test_the_files_that_are_read_are_those_that_are_listed() -> None:
    listed = {file.source.path for file in data_files(["nli"])}
    assert listed == set(FILES) == {file for part in parts.PARTS.values() for file in part.files}


def test_a_quotation_mark_in_a_table_is_a_character_like_any_other(small: Small) -> None:
    context = small({"conjnli/conj_dev.tsv": '"He left, or stayed.\t He said "no" \tneutral\nA\tB\tentailment\n'})
    first, second = nli_rows.open("conj_dev", context)
    assert first == {
        "id": "conjnli/conj_dev:1",
        "premise": '"He left, or stayed.',
        "hypothesis": ' He said "no" ',
        "label": "neutral",
        "corpus": "conj",
        "meta": {"corpus": "conj", "premise": parts.premise_key("He left, or stayed")},
    }
    assert second["id"] == "conjnli/conj_dev:2"


def test_the_questions_of_the_multinli_sample_are_taken_apart_and_repeats_left_out(small: Small) -> None:
    lines = [multinli_line('It is ""so""', "It was, was it\n", "neutral"), multinli_line("A", "B", "entailment")]
    context = small({"mnli_sample/mnli_train.csv": "Question,Answer,Origin\n" + lines[0] * 2 + lines[1]})
    read = list(nli_rows.open("mnli_train", context))
    assert texts(read) == [('It is "so"', "It was, was it\n", "neutral"), ("A", "B", "entailment")]
    assert [row["id"] for row in read] == ["mnli_sample/mnli_train:1", "mnli_sample/mnli_train:3"]


def test_numbers_stand_for_labels_in_the_snli_sample(small: Small) -> None:
    context = small({"snli_sample/test.csv": "1\t1\tA\tn\n2\t2\tA\tc\n3\t3\tA\te\n"})
    assert texts(list(nli_rows.open("snli_test", context))) == [
        ("A", "n", "neutral"),
        ("A", "c", "contradiction"),
        ("A", "e", "entailment"),
    ]


def test_files_side_by_side_with_and_without_a_last_newline(small: Small) -> None:
    sides = {"esnli/s1.dev": "A . \nB .", "esnli/s2.dev": "C . \nD .\n", "esnli/labels.dev": "neutral\nentailment"}
    assert texts(list(nli_rows.open("esnli_dev", small(sides)))) == [
        ("A . ", "C . ", "neutral"),
        ("B .", "D .", "entailment"),
    ]
    with pytest.raises(DataError, match=r"different numbers of lines: .*s1\.dev 2, .*s2\.dev 1"):
        list(nli_rows.open("esnli_dev", small(sides | {"esnli/s2.dev": "C .\n"})))


def test_sick_in_the_parts_of_semeval(small: Small) -> None:
    lines = "1\tA\tB\tNEUTRAL\tFLICKR\tTRAIN\r\n2\tC\tD\tENTAILMENT\tSEMEVAL\tTEST\r\n"
    context = small({"sick/SICK.txt": lines})
    (row,) = nli_rows.open("sick_test", context)
    assert (row["id"], row["label"], row["meta"]["genre"]) == ("sick/SICK:2", "entailment", "semeval")
    assert [row["id"] for row in nli_rows.open("sick_train", context)] == ["sick/SICK:1"]
    assert not list(nli_rows.open("sick_trial", context))


def test_what_med_and_taxinli_say_of_a_pair(small: Small) -> None:
    context = small(
        {
            "med/MED.tsv": "paper:GLUE:upward_monotone:World knowledge\tA\tB\tneutral\n",
            "taxinli/taxinli10k.tsv": "A\tB\tcontradiction\t-\t1\t0\t1.0\t7c\tslate\n",
        }
    )
    (med,), (taxi,) = nli_rows.open("med", context), nli_rows.open("taxi", context)
    assert (med["meta"]["genre"], med["meta"]["category"]) == ("paper", "upward")
    assert {key: value for key, value in taxi["meta"].items() if key != "premise"} == {
        "corpus": "taxi",
        "genre": "slate",
        "negation": "yes",
        "world": None,
    }


@pytest.mark.parametrize(
    ("part", "file", "added", "complaint"),
    [
        ("cad_dev", "cad_nli/all_combined/dev.tsv", "A\tB\tneutral\nA\tB\n", r"dev\.tsv:3: 2 values for 3 columns"),
        ("cad_dev", "cad_nli/all_combined/dev.tsv", "A\tB\tmaybe\n", r"dev\.tsv:2: 'maybe' is not a label"),
        ("conj_dev", "conjnli/conj_dev.tsv", "A\tB\t\n", r"conj_dev\.tsv:2: '' is not a label"),
        ("snli_test", "snli_sample/test.csv", "4\t4\tA\tB\n", r"test\.csv:1: '4' is not a label"),
        (
            "mnli_train",
            "mnli_sample/mnli_train.csv",
            "Question\nWhat?,neutral,mnli\n",
            r"train\.csv:2: expected a ques",
        ),
        (
            "mnli_train",
            "mnli_sample/mnli_train.csv",
            "Question\n" + multinli_line('A"", does the hypothesis ""B', "C", "neutral"),
            r"train\.csv:2: expected a question",
        ),
        ("snli_hard", "mnli_hard/snli_1.0_test_hard.jsonl", '{"sentence1": "A"}\n', r"hard\.jsonl:1: sentence1, sent"),
        ("snli_hard", "mnli_hard/snli_1.0_test_hard.jsonl", "{}\n{\n", r"hard\.jsonl:1: sentence1"),
    ],
)
def test_a_broken_row_is_named(part: str, file: str, added: str, complaint: str, small: Small) -> None:
    with pytest.raises(DataError, match=complaint):
        list(nli_rows.open(part, small({file: added})))


def test_unknown_parts_get_near_names(small: Small) -> None:
    with pytest.raises(DataError, match=r"no part 'mnli_tain'; did you mean .*'mnli_train'"):
        nli_rows.open("mnli_tain", small({}))


def test_copies_are_known_by_their_letters() -> None:
    assert parts.fold("He didn't go .") == parts.fold("he did n't go")
    assert parts.premise_key("A cat.") == parts.premise_key("a  cat") != parts.premise_key("A cart.")


# ---- what is trained on ---------------------------------------------------------------------------------------------


def numbers(name: str, context: DataContext) -> list[str]:
    return [row["id"] for row in nli_rows.open(name, context)]


def test_train_leaves_out_test_pairs_repeats_and_two_labels(small: Small) -> None:
    train = "3\t3\tA man sleeps.\tHe rests.\n1\t1\tA man sleeps.\tHe dreams.\n2\t2\tA dog.\tA cat.\n" * 2
    context = small(
        {
            "snli_sample/train.csv": train + "1\t1\tA bird.\tIt sings.\n1\t1\tA bird.\t...\n",
            "conjnli/conj_dev.tsv": "a man sleeps .\the dreams .\tentailment\n",
            "cad_nli/all_combined/train.tsv": "A dog\tA cat\tneutral\n",
            "cad_nli/all_combined/dev.tsv": "A bird\tIt sings\tneutral\n",
        }
    )
    assert numbers("train", context) == ["snli_sample/train:1"]
    dropped = union.union(tuple(parts.fetch_part(part, context) for part in union.ALL_PARTS)).dropped
    assert dropped == {
        ("snli_train", "in a test set"): 2,
        ("snli_train", "two labels"): 2,
        ("snli_train", "repeated"): 1,
        ("snli_train", "in a validation set"): 1,
        ("snli_train", "no words"): 1,
        ("cad_train", "two labels"): 1,
    }


def test_dev_is_balanced_and_its_premises_are_not_trained_on(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(union, "PER_LABEL", 2)
    pairs = [(f"premise {number}", label[0], label) for number in range(5) for label in LABELS]
    sides = {
        f"esnli/{side}.dev": "\n".join(column)
        for side, column in zip(parts.SIDES, zip(*pairs, strict=True), strict=True)
    }
    context = small(sides | {"snli_sample/train.csv": "3\t3\tPremise 0\tnew\n3\t3\tPremise 1\tnew\n"})
    dev, train = list(nli_rows.open("dev", context)), list(nli_rows.open("train", context))
    assert Counter(row["label"] for row in dev) == dict.fromkeys(LABELS, 2)
    held = {row["meta"]["premise"] for row in dev}
    assert len(held) == 2, "premises go as a whole"
    assert not held & {row["meta"]["premise"] for row in train}
    assert len(train) >= 9
    assert [row["id"] for row in dev] == numbers("dev", context)


def test_the_union_is_made_once_per_process(small: Small) -> None:
    context = small({"snli_sample/train.csv": "3\t3\tA\tB\n"})
    union.union.cache_clear()
    for name in ("train", "dev", "train"):
        list(nli_rows.open(name, context))
    assert union.union.cache_info().misses == 1


def test_every_test_and_validation_split_is_kept_out_of_train() -> None:
    tasks = Harness().catalogue
    scored = [tasks.tasks.get(name) for name in tasks.suites.get("nli").tasks]
    assert {task.data["test"] for task in scored} == {f"nli:{part}" for part in union.TEST}
    assert {task.data[split] for task in scored for split in task.data if split == "validation"} == {
        f"nli:{part}" for part in union.VALIDATION
    }
    assert not set(union.TRAIN) & {*union.TEST, *union.VALIDATION}


# ---- the real files -------------------------------------------------------------------------------------------------


@pytest.fixture
def real(real_data: str, tmp_path: Path) -> DataContext:
    return DataContext(folder=tmp_path, fetch=fetch)


@pytest.mark.slow
@pytest.mark.parametrize("case", GOLDEN["parts"], ids=[case["part"] for case in GOLDEN["parts"]])
def test_real_counts(case: Row, real: DataContext) -> None:
    read = list(nli_rows.open(case["part"], real))
    label_counts = Counter(row["label"] for row in read)
    assert [label_counts[label] for label in LABELS] == case["rows"]
    assert len({row["meta"]["premise"] for row in read}) == case["premises"]
    assert len({row["id"] for row in read}) == len(read)


@pytest.mark.slow
def test_real_training_pairs_are_in_no_test(real: DataContext) -> None:
    def pairs(read: list[Row]) -> set[tuple[str, str]]:
        return {(parts.fold(row["premise"]), parts.fold(row["hypothesis"])) for row in read}

    train, dev = pairs(list(nli_rows.open("train", real))), pairs(list(nli_rows.open("dev", real)))
    assert not train & dev
    assert not {premise for premise, _ in train} & {premise for premise, _ in dev}
    tests = {part: pairs(list(nli_rows.open(part, real))) for part in union.TEST}
    tests["impli"] = pairs(list(impli.open("all", real)))
    assert not {
        name: len(test_pairs & (train | dev)) for name, test_pairs in tests.items() if test_pairs & (train | dev)
    }
    dropped = union.union(tuple(parts.fetch_part(part, real) for part in union.ALL_PARTS)).dropped
    assert {
        part: {reason: n for (name, reason), n in dropped.items() if name == part} for part in union.TRAIN
    } == GOLDEN["dropped"]


def test_real_numbers_of_the_snli_sample_are_read_aright(real: DataContext) -> None:
    """Pairs that are in another set have the same label there, all but one."""

    def labels(part: str) -> dict[tuple[str, str], str]:
        read = nli_rows.open(part, real)
        return {(parts.fold(row["premise"]), parts.fold(row["hypothesis"])): row["label"] for row in read}

    sample, counts_of_cad = labels("snli_train"), labels("cad_train")
    both = sample.keys() & counts_of_cad.keys()
    assert (len(both), sum(sample[pair] == counts_of_cad[pair] for pair in both)) == (52, 51)


@pytest.mark.slow
def test_a_three_way_head_answers(
    real_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names = dict(enumerate(("CONTRADICTION", "NEUTRAL", "ENTAILMENT")))
    head = Workshop(tmp_path)("bert", "ForSequenceClassification", id2label=names)
    command = [
        "run",
        "--tasks",
        "nli_snli_hard,nli_med",
        "--limit",
        "20",
        "--model",
        f"pairs:{head}",
        "--device",
        "cpu",
    ]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--by", "category", "--output_path", str(tmp_path / "run")])
    assert ended.value.code == 0, capsys.readouterr().err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    hard, med = record["tasks"]
    assert hard["settings"]["labels"] == list(LABELS)
    assert med["settings"]["labels"] == ["entailment", "non-entailment"]
    assert [score["metric"] for score in hard["scores"]] == ["acc", "macro_f1"]
    assert {group["value"] for group in med["breakdowns"][0]["groups"]} <= {"upward", "downward", "non"}
    first = json.loads((tmp_path / "run" / "predictions" / "nli_snli_hard.jsonl").read_text().splitlines()[0])
    assert set(first["meta"]) == {"corpus", "premise"}
    assert len(first["cluster"]) == 16, "a key, not the text"
