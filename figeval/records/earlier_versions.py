"""The versions of `run.json`, and what is read of an earlier one as this one stores it.

1.1: answers in words, orders, prompts and probes; 1.2: spans, joint, generation, similarity; 1.3: means over seeds;
1.4: examples that the model was trained on or chosen on, gold answers that all share one label, are hidden or absent;
sha256 of the predictions; 2.0: a task's key `protocol` is renamed to `task_type`; 2.1: kinds of options that were
chosen (`choices` of a task, `choice` of a prediction), rows in several languages (`languages` of a task, `language`
of a prediction), the meaning of a route's settings (`legend` of a task), a digest of the ids of a random sample
(`sample_sha256` of a task); these keys are omitted if they are empty, and so are `weights` of a baseline (the
trained floor of a model), and `contrasts` and `digests` of a run; 2.2: tokens that a model wrote (`tokens` of a task,
`answer_tokens` and `reasoning_tokens` of a prediction), omitted where they are unknown; 2.3: options whose tokens
would reach into the prompt are encoded apart (`straddling` of a prediction and among the counts of a task); 2.4:
several samples of an answer (`samples` of a prediction, `variances` of a run), omitted without them; 2.5: warnings
about some tasks of a run are in the tasks, and tasks that it lacks in `left_out`, omitted without them
"""

from __future__ import annotations

import re

from figeval.records.schema import OmissionRecord, RunRecord

APART = (2, 5)  # version since which the warnings of a run are about all of it
LEFT_OUT = re.compile(r"left out, since (?P<reason>.+): (?P<tasks>[^:;]+); (?P<cure>.+)")


def sort_warnings(record: RunRecord) -> None:
    """Give the tasks of an earlier record their warnings, which began with their names among those of the run."""
    if tuple(map(int, record.schema_version.split("."))) >= APART:
        return
    tasks = {task.task: task for task in record.tasks}
    of_run = []
    for warning in record.warnings:
        head, _, text = warning.partition(": ")
        names = head.split(", ")
        if text and tasks.keys() >= set(names):
            for name in names:
                tasks[name].warnings.append(text)
        elif parts := LEFT_OUT.fullmatch(warning):
            record.left_out.append(
                OmissionRecord(tasks=parts["tasks"].split(", "), reason=parts["reason"], cure=parts["cure"])
            )
        else:
            of_run.append(warning)
    record.warnings = of_run
