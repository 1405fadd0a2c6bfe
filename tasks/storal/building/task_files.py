"""The task files and the suite of a built folder, which runs unchanged with `--include_path`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

PAPER = ("mocpt", "mopref", "st2mo", "mo2st")
KINDS = (*PAPER, "preference")
CHOICES = ("mocpt", "mopref", "preference")
ALTERNATIVES = {"train": "train", "valid": "dev", "test": "test"}  # our split → its key in a task file
DESCRIPTIONS = {
    "mocpt": "the moral of a story among five",
    "mopref": "the moral of a story, or the same with one word replaced by an antonym",
    "st2mo": "write the moral of a story",
    "mo2st": "write the rest of a story from its moral, beginning and outline",
    "preference": "the moral of a story, or the same with one word replaced by a synonym or by an antonym",
}
FIELDS = {
    "mocpt": "query: row.story\n  options: row.options\n  gold: row.gold",
    "mopref": "query: row.story\n  options: row.options\n  gold: row.gold",
    "st2mo": "inputs: {story: row.story}\n  references: [row.moral]",
    "mo2st": "inputs: {moral: row.moral, beginning: row.beginning, outline: row.outline}\n  references: [row.story]",
    "preference": "query: row.story\n  options: row.options\n  gold: row.gold\n  option_meta: row.versions",
}
CHOICE = """type: choice
metrics: [{metrics}]
baselines: [chance, overlap]
floor: no_query  # the same model without the story
"""
VOCABULARY = {
    "en": "vocabulary: {option: [moral, lesson, message, teaching], answer: [moral, lesson]}\n",
    "zh": "vocabulary: {option: [寓意, 道理, 启示, 教训], answer: [寓意, 道理]}\n",
}
GENERATION = """type: generation
baselines: [{baselines}]
error_types: [{errors}, unrelated, conflicting]
max_new_tokens: {tokens}
metrics: [{metrics}]
"""
ERRORS = {"st2mo": "not a moral", "mo2st": "not a story"}
TOKENS = {"st2mo": 100, "mo2st": 512}  # maximum of new tokens, as in the authors' code
METRICS = {
    "mocpt": "acc, acc_norm, acc_pmi",
    "mopref": "acc, acc_norm, acc_pmi",
    "preference": "win_antonym, win_synonym, win_difference, acc",
    "st2mo": "bleu_1, bleu_2, repetition_2, distinct_2_published, length_published",
    "mo2st": "bleu_1, bleu_2, repetition_4_published, distinct_4, coverage, coverage_corrected, order, "
    "order_corrected, phrases_found, length_published, cut_off",
}
METRICS_OF_ANY_LANGUAGE = "rouge_l, corpus_bleu, distinct_1, distinct_2, length"
TEMPLATES = {**dict.fromkeys(CHOICES, "moral"), "st2mo": "st2mo", "mo2st": "mo2st"}
WORDINGS = ("short", "question", "instruction")


def data_file(kind: str, split: str) -> str:
    """Return the name of the file with the rows of a task."""
    return f"{kind}_{split}.jsonl"


def task_file(name: str, kind: str, language: str, splits: Iterable[str]) -> str:
    """Return the YAML of one task. If there is no test split, the last split takes its place."""
    data = {ALTERNATIVES[split]: f"jsonl:{data_file(kind, split)}" for split in splits}
    if "test" not in data:
        data["test"] = data.popitem()[1]
    sources = ", ".join(f'{key}: "{reference}"' for key, reference in data.items())
    return (
        f'name: {name}_{kind}\ndescription: "{name}: {DESCRIPTIONS[kind]}"\nlanguage: {language}\n'
        f"data: {{{sources}}}\nfields:\n  id: row.id\n  {FIELDS[kind]}\n  meta: {{moral: row.moral_group}}\n"
        f"{_type(kind, language, trained='train' in data)}cluster: moral\n{_prompts(TEMPLATES[kind], language)}"
    )


def _type(kind: str, language: str, *, trained: bool) -> str:
    """Return the lines with the type and its metrics, which follow those of the fields.

    If `trained`, they include a baseline that takes texts from the training split.
    """
    if kind in CHOICES:
        return CHOICE.format(metrics=METRICS[kind]) + VOCABULARY.get(language, "")
    is_supported = language in ("en", "zh")
    field = f"  language: \"'{language}'\"\n" if is_supported else ""  # STORAL's metrics tokenize texts by language
    metrics = METRICS[kind] if is_supported else METRICS_OF_ANY_LANGUAGE
    baselines = "echo, random, overlap" if trained else "echo, overlap"
    return field + GENERATION.format(baselines=baselines, errors=ERRORS[kind], tokens=TOKENS[kind], metrics=metrics)


def _prompts(template: str, language: str) -> str:
    """Return the lines that name the prompts of a language; they are empty if figeval has no prompts in it."""
    if not (files("figeval.builtin.templates") / "storal" / f"{template}.{language}.jinja").is_file():
        return ""
    prompt_lines = "".join(f"  {wording}: storal/{template}.{wording}.{language}.jinja\n" for wording in WORDINGS)
    return f"template: storal/{template}.{language}.jinja\nprompts:\n{prompt_lines}"


def suite_file(name: str, kinds: Iterable[str]) -> str:
    """Return the YAML of the suite of all tasks."""
    tasks = ", ".join(f"{name}_{kind}" for kind in kinds)
    return (
        f"name: {name}\n"
        'description: "Stories and morals, built by `figeval benchmark build storal`"\n'
        f"tasks: [{tasks}]\n"
        "macro_mean: false  # five options, two options and texts have no common mean\n"
    )
