"""A task with several prompts, with probes, with answers in words: files, records, spreads, and going on."""

from __future__ import annotations

import math
import shutil

import pytest

import figeval
from figeval import CapabilityError, RecordError, Reply, TaskError
from figeval.testing.fakes import FakeChatModel, FakeGenerator, FakeLanguageModel, FakePairScorer
from tests.runs.conftest import Heard, write_task

LOUD_TEMPLATE = """
{% block context %}LOUD {{ query }}{% endblock %}
{% block continuation %} {{ option }}{% endblock %}
{% block letter %}LOUD {{ query }} {% for option in options %}{{ letters[loop.index0] }}={{ option }} {% endfor %}
Letter:{% endblock %}
"""


def write_prompted(folder, name="t", extra="", **changes):
    write_task(folder, name, **changes)
    with (folder / f"{name}.task.yaml").open("a") as file:
        file.write(f"prompts: {{loud: loud.jinja}}\n{extra}")
    (folder / "loud.jinja").write_text(LOUD_TEMPLATE)


def letter_of_the_word(question):
    """A model that finds the option which its question contains, whatever its letter."""
    word = next(part for part in question.split() if part.startswith("word"))
    return next((line[0] for line in question.split("\n") if line[1:] == f". {word}"), "A")


# ---- prompts ---------------------------------------------------------------------------------------------------------


def test_one_prompt_unless_more_are_asked_for(workshop):
    write_prompted(workshop.folder)
    workshop.backend = FakeLanguageModel()
    record = workshop.run()
    (task,) = record.tasks
    assert (task.task, task.kind, task.of, task.variant, record.spreads) == ("t", "task", None, None, [])


@pytest.mark.parametrize("prompts", [("all",), ("loud",)])
def test_every_prompt_has_a_record_a_file_and_its_own_template(prompts, workshop):
    write_prompted(workshop.folder)
    workshop.backend = FakeLanguageModel(
        function=lambda context, option: float(("LOUD" in context) == (option == " other"))  # loud: second option
    )
    record = workshop.run(prompts=prompts)
    plain, loud = record.tasks
    assert (loud.task, loud.kind, loud.of, loud.variant) == ("t@loud", "prompt", "t", "loud")
    assert (plain.template, loud.template) == ("_default/choice.jinja", "loud.jinja")
    assert loud.predictions == "predictions/t@loud.jsonl"
    assert [row["id"] for row in workshop.rows("t@loud")] == [row["id"] for row in workshop.rows("t")]
    assert plain.examples_sha256 == loud.examples_sha256
    assert plain.baselines
    assert not loud.baselines, "a baseline reads no prompt"
    spread = next(spread for spread in record.spreads if spread.metric == "acc")
    values = {"default": plain.scores[0].value, "loud": loud.scores[0].value}
    low, high = sorted(values, key=values.__getitem__)
    assert (spread.task, spread.prompts, spread.lowest_prompt, spread.highest_prompt) == ("t", 2, low, high)
    assert spread.mean == pytest.approx(sum(values.values()) / 2)
    assert spread.range == pytest.approx(values[high] - values[low])


def test_prompts_and_probes_never_enter_macro_means(workshop):
    for name in ("a", "b"):
        write_prompted(workshop.folder, name)
    (workshop.folder / "s.suite.yaml").write_text("name: s\ntasks: [a, b]\n")
    workshop.backend = FakeLanguageModel()
    record = workshop.run("s", prompts=("all",), probes=True)
    assert [task.task for task in record.tasks] == [
        *("a", "a@loud", "a@no_query", "a@shuffled_query"),
        *("b", "b@loud", "b@no_query", "b@shuffled_query"),
    ]
    assert {macro.tasks for macro in record.macro} == {2}
    assert record.warnings == []


def test_a_run_with_prompts_goes_on_where_it_stopped(workshop):
    write_prompted(workshop.folder, n=100)
    workshop.backend = FakeLanguageModel()
    with pytest.raises(KeyboardInterrupt):
        workshop.run(prompts=("all",), observer=Heard(stop_after=120))
    workshop.backend, observer = FakeLanguageModel(), Heard()
    record = workshop.run(prompts=("all",), observer=observer)
    assert [event for event in observer.events if event[0] == "start"] == [
        ("start", "t", 100, 100),
        ("start", "t@loud", 100, 20),
    ]
    assert all(request.context.startswith("LOUD") for request in workshop.backend.asked)
    assert record.status == "complete"


@pytest.mark.wing("comparison")
def test_runs_are_compared_prompt_by_prompt(workshop):
    write_prompted(workshop.folder)
    workshop.backend = FakeLanguageModel()
    workshop.run(prompts=("all",))
    first = workshop.output
    first.rename(workshop.path / "first")
    workshop.run(prompts=("all",))
    compared = figeval.compare(workshop.path / "first", workshop.output).differences
    assert compared[["task", "n"]].to_numpy().tolist() == [["t", 20], ["t@loud", 20]]


def test_a_prompt_that_nobody_has(workshop):
    write_prompted(workshop.folder)
    workshop.backend = FakeLanguageModel()
    with pytest.raises(
        TaskError, match=r"--prompts lound: none of these tasks has it; did you mean 'loud'\?; they have"
    ):
        workshop.run(prompts=("lound",))
    write_task(workshop.folder, "u")
    with pytest.raises(TaskError, match="--prompts all: none of these tasks has it; they have no other prompts"):
        workshop.run("u", prompts=("all",))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prompts": ("all",)}, "by_pair_score, which shows no prompt; leave out --prompts"),
        ({"system_instruction": "hi"}, "has no place for a system message; leave out --system_instruction"),
        ({"orders": "cyclic"}, "which shows no list of options; leave out --orders, or leave t out of --tasks"),
        ({"apply_chat_template": True}, "model has no chat template to apply; leave out --apply_chat_template"),
    ],
)
def test_a_flag_that_would_change_nothing_is_refused(settings, words, workshop):
    write_prompted(workshop.folder)
    with pytest.raises(CapabilityError, match=words):
        workshop.run(**settings)


def test_a_model_behind_an_api_has_no_plain_text(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakeGenerator()
    with pytest.raises(CapabilityError, match="model accepts chat messages only; leave out --no_chat_template"):
        workshop.run(apply_chat_template=False)
    assert workshop.run(apply_chat_template=True, max_new_tokens=3).tasks[0].settings["max_new_tokens"] == 3


def test_a_prompt_may_not_be_called_like_something_else(workshop):
    write_prompted(workshop.folder)
    file = workshop.folder / "t.task.yaml"
    file.write_text(file.read_text().replace("loud:", "no_query:"))
    with pytest.raises(TaskError, match="prompts: 'no_query' cannot name a prompt"):
        workshop.run()


# ---- probes ----------------------------------------------------------------------------------------------------------


def test_probes_show_what_the_query_is_worth(workshop):
    write_task(workshop.folder, "t")
    record = workshop.run(probes=True)
    plain, without, shuffled = record.tasks
    assert [task.kind for task in record.tasks] == ["task", "probe", "probe"]
    assert {baseline.baseline for baseline in plain.baselines} == {"chance", "overlap"}
    assert without.scores[0].value == pytest.approx(1 / 3), "nothing to go by"
    assert shuffled.scores[0].value < plain.scores[0].value
    assert len({task.examples_sha256 for task in record.tasks}) == 3
    assert [row["gold"] for row in workshop.rows("t@no_query")] == [row["gold"] for row in workshop.rows("t")]


def with_floor(folder, name):
    write_task(folder, "t", 6)
    add_floor(folder, name)


def add_floor(folder, name="no_query"):
    with (folder / "t.task.yaml").open("a") as file:
        file.write(f"floor: {name}\n")


def test_the_scores_of_a_floor_stand_among_the_baselines(workshop):
    """Every run asks the same model without the query, and a run that goes on keeps what it was told."""
    with_floor(workshop.folder, "no_query")
    workshop.backend = FakePairScorer(function=lambda _left, right: float(right == "other"))
    plain, floor = workshop.run().tasks
    assert (plain.is_floor, floor.is_floor, floor.task, floor.kind) == (False, True, "t@no_query", "probe")
    assert [baseline.baseline for baseline in plain.baselines] == ["chance", "no_query"]
    assert plain.baselines[-1].scores == floor.scores
    request_count = len(workshop.backend.asked)
    assert workshop.run().tasks[0].baselines == plain.baselines
    assert len(workshop.backend.asked) == request_count


def test_a_floor_is_left_out_with_the_baselines_and_asked_once_among_the_probes(workshop):
    with_floor(workshop.folder, "no_query")
    assert [task.task for task in workshop.run(baselines=False).tasks] == ["t"]
    shutil.rmtree(workshop.output)
    record = workshop.run(probes=True)
    assert [(task.task, task.is_floor) for task in record.tasks] == [
        ("t", False),
        ("t@no_query", False),
        ("t@shuffled_query", True),
    ]
    assert [baseline.baseline for baseline in record.tasks[0].baselines] == ["chance", "overlap", "shuffled_query"]


def test_where_an_empty_query_ties_the_floor_has_the_query_of_another_example(workshop):
    """Both probes are kept, the second one is the floor, and a run that goes on leaves it at that."""
    with_floor(workshop.folder, "no_query")
    record = workshop.run()
    plain, empty, other = record.tasks
    assert [(task.task, task.is_floor) for task in (empty, other)] == [
        ("t@no_query", False),
        ("t@shuffled_query", True),
    ]
    assert [baseline.baseline for baseline in plain.baselines] == ["chance", "shuffled_query"]
    assert plain.baselines[-1].scores == other.scores
    assert [task.task for task in record.tasks_with_rows()] == ["t"]
    (warning,) = plain.warnings
    assert warning.startswith("the floor is shuffled_query, since no_query says nothing")
    request_count = len(workshop.backend.asked)
    again = workshop.run()
    assert (again.tasks[0].baselines, again.tasks[0].warnings) == (plain.baselines, plain.warnings)
    assert len(workshop.backend.asked) == request_count


def test_without_another_query_the_empty_one_stays_the_floor(workshop):
    """One cluster has more than half of the examples, and nobody asked for the other probe."""
    write_task(workshop.folder, "t", 6, **{f"row{number}": {"k": "same"} for number in range(5)})
    add_floor(workshop.folder)
    record = workshop.run()
    assert [(task.task, task.is_floor) for task in record.tasks] == [("t", False), ("t@no_query", True)]


@pytest.mark.parametrize(
    ("preferred", "floor"),
    [
        ((), "shuffled_query"),
        (("word0",), "shuffled_query"),  # in one example of twenty
        (("word0", "word1"), "no_query"),
        (("third",), "no_query"),  # always the last option, which is a preference
    ],
)
def test_an_empty_query_that_hardly_says_anything_is_no_floor(preferred, floor, workshop):
    write_task(workshop.folder, "t")
    add_floor(workshop.folder)
    workshop.backend = FakePairScorer(
        function=lambda left, right: float(right in (left.split() if left else preferred))
    )
    assert variant_of_floor(workshop) == floor


def variant_of_floor(workshop):
    return next(task.variant for task in workshop.run().tasks if task.is_floor)


def test_an_empty_query_without_a_number_is_no_floor(workshop):
    with_floor(workshop.folder, "no_query")
    workshop.backend = FakePairScorer(function=lambda left, right: float(right in left) if left else math.nan)
    assert variant_of_floor(workshop) == "shuffled_query"


PAIRS = """
name: t
type: pairs
data: {test: "jsonl:t.jsonl"}
labels: [same, other]
settings: {threshold: 0.5}
fields: {id: row.id, left: row.q, right: "row.o[row.g]", label: "row.g and 'other' or 'same'", meta: {kind: row.k}}
cluster: kind
metrics: [acc]
floor: no_query
"""


@pytest.mark.parametrize(("scores", "floor"), [((0.5, 0.5), "shuffled_query"), ((0.1, 0.2), "no_query")])
def test_pairs_that_all_lie_on_the_threshold_say_nothing(scores, floor, workshop):
    write_task(workshop.folder, "t", 6)
    (workshop.folder / "t.task.yaml").write_text(PAIRS)
    workshop.backend = FakePairScorer(
        function=lambda left, right: float(right in left) if left else scores[right == "other"]
    )
    assert variant_of_floor(workshop) == floor


def test_answers_in_words_are_always_a_floor(workshop):
    with_floor(workshop.folder, "no_query")
    workshop.backend = FakeGenerator()
    assert variant_of_floor(workshop) == "no_query"


RANKING = """
name: t
type: ranking
data: {test: "jsonl:t.jsonl"}
fields: {id: row.id, query: row.q, candidates: row.o, relevant: row.g, meta: {kind: row.k}}
cluster: kind
metrics: [acc]
floor: no_query
"""


@pytest.mark.parametrize(("liking", "floor"), [(0.0, "shuffled_query"), (1.0, "no_query")])
def test_candidates_that_all_tie_say_nothing(liking, floor, workshop):
    write_task(workshop.folder, "t", 6)
    (workshop.folder / "t.task.yaml").write_text(RANKING)
    workshop.backend = FakePairScorer(
        function=lambda left, right: float(right in left) if left else liking * (right == "other")
    )
    assert variant_of_floor(workshop) == floor


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.wing("verify")
def test_which_probe_is_the_floor_is_verified(keeps, workshop):
    with_floor(workshop.folder, "no_query")
    workshop.run()

    def swap(record):
        record["tasks"][1]["is_floor"] = True
        del record["tasks"][2]["is_floor"]

    if not keeps:
        workshop.edit_record(swap)
    verified = figeval.verify(workshop.output, include_path=workshop.folder)
    problems = [check.detail for check in verified.problems if check.part == "t@no_query"]
    assert any("is_floor is true, recomputed absent" in detail for detail in problems) == (not keeps)


def test_a_floor_that_is_no_probe_is_refused(workshop):
    with_floor(workshop.folder, "no_story")
    with pytest.raises(TaskError, match=r"'no_story' is not a probe of choice tasks \(available: no_query, shuffled"):
        workshop.run()


def test_probes_do_not_depend_on_the_limit(workshop):
    write_task(workshop.folder, "t")
    workshop.run(probes=True, log_samples=True)
    all_rows = workshop.rows("t@shuffled_query")
    workshop.path = workshop.path / "again"
    workshop.path.mkdir()
    workshop.run(probes=True, log_samples=True, limit=5)
    assert [row["texts"] for row in workshop.rows("t@shuffled_query")] == [row["texts"] for row in all_rows[:5]]


# ---- answers in words ------------------------------------------------------------------------------------------------


def test_a_model_that_only_writes_is_asked_for_letters(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakeGenerator(
        function=lambda question: Reply(text=f"I would say {letter_of_the_word(question)}.")
    )
    record = workshop.run()
    (task,) = record.tasks
    assert task.route == "by_letter"
    assert [score.metric for score in task.scores] == ["acc", "acc_of_all", "parse_rate"]
    assert {score.metric: score.value for score in task.scores} == {"acc": 0.75, "acc_of_all": 0.75, "parse_rate": 1.0}
    assert task.extractor
    assert (task.settings["max_new_tokens"], task.settings["stop"]) == (512, []), "as a chat model"
    assert workshop.rows()[0]["raw"] == "I would say A."
    assert workshop.rows()[0]["finish"] == "stop"


def test_silence_lowers_the_parse_rate_and_not_the_accuracy(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakeGenerator(
        function=lambda question: "" if "word1" in question else letter_of_the_word(question)
    )
    (task,) = workshop.run().tasks
    values = {score.metric: (score.value, score.n) for score in task.scores}
    assert task.counts == {"empty": 11, "ok": 9}
    assert values["parse_rate"] == (9 / 20, 20)
    assert values["acc"] == (pytest.approx(6 / 9), 9)
    assert values["acc_of_all"] == (pytest.approx(6 / 20), 20)


def test_a_template_without_letters_is_helped_out_and_that_is_said(workshop):
    write_task(workshop.folder, "t")
    with (workshop.folder / "t.task.yaml").open("a") as file:
        file.write("template: bare.jinja\n")
    (workshop.folder / "bare.jinja").write_text("{% block context %}{{ query }}{% endblock %}")
    workshop.backend = FakeGenerator()
    (task,) = workshop.run().tasks
    assert task.template == "_default/choice.jinja"
    assert task.warnings == ["bare.jinja lacks the block 'letter' of by_letter; _default/choice.jinja was used instead"]


def test_orders_are_kept_answer_by_answer(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakeGenerator(function=lambda _: "A")
    record = workshop.run(orders="cyclic")
    (task,) = record.tasks
    values = {score.metric: score.value for score in task.scores}
    assert values["acc"] == pytest.approx(1 / 3), "a liking for a place is chance in cyclic orders"
    assert values["consistency"] == 0.0
    assert values["position_bias"] == pytest.approx(2 / 3)
    assert task.settings["orders"] == "cyclic"
    assert task.counts == {"ok": 60}
    row = workshop.rows()[0]
    assert [answer["order"] for answer in row["answers"]] == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    assert [(answer["pred"], answer["raw"]) for answer in row["answers"]] == [(0, "A"), (1, "A"), (2, "A")]
    assert not next(score for score in task.scores if score.metric == "position_bias").higher_is_better


def test_one_order_has_no_position_bias(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakeGenerator(function=lambda _: "A")
    (task,) = workshop.run(metrics=("position_bias", "consistency")).tasks
    scores = {score.metric: score for score in task.scores}
    for name in ("position_bias", "consistency"):
        assert (scores[name].value, scores[name].low, scores[name].n) == (None, None, 0)
        assert scores[name].interval.reason == "the options were shown in one order only (--orders)"


def test_settings_say_how_it_was_asked_and_only_that(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakeChatModel()
    (task,) = workshop.run(system_instruction="Be brief.", num_fewshot=1, shots="shared").tasks
    assert task.settings == {
        "num_fewshot": 1,
        "split": "test",
        "verbalizer": {},
        "chat_template": True,
        "shots": "shared",
        "system_instruction": "Be brief.",
    }
    context = workshop.backend.asked[0].context
    assert context.startswith("<system>Be brief.</><user>Question: ")
    assert context.endswith("</><assistant>")
    assert not workshop.backend.asked[0].continuation.startswith(" ")


def test_shared_examples_make_prompts_begin_alike(workshop):
    write_task(workshop.folder, "t", 60)
    workshop.backend = FakeLanguageModel()
    workshop.run(num_fewshot=2, shots="shared")
    beginnings = {request.context.rpartition("\n\n")[0] for request in workshop.backend.asked}
    assert len(beginnings) <= 3, "one, and one for each cluster whose own examples it shows"


def test_a_folder_of_an_older_extractor_is_not_mixed(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakeGenerator()
    workshop.run()
    workshop.edit_record(lambda record: record["tasks"][0].update(extractor="0"))
    with pytest.raises(
        RecordError, match="the answers to t were read by an older extractor; run `figeval rescore` on it"
    ):
        workshop.run()


def test_a_model_without_probabilities_or_letters_still_takes_its_route(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakePairScorer()
    assert workshop.run().tasks[0].extractor is None
