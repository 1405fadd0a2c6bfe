"""A figeval plugin: each hook below offers one kind of thing. Nothing heavy is imported until it is used."""

from importlib.resources import files

from figeval import hookimpl


@hookimpl
def register_tasks(register):
    """The YAML files of this folder, and a task written in Python."""
    from figeval_acme.similes import acme_similes

    register.folder(files(__name__))
    register(acme_similes)


@hookimpl
def register_backends(register):
    """Models, named by where they can be imported from: one of our own, and those behind an API."""
    register("acme_trigrams", f"{__name__}.trigrams:Trigrams", "shared character trigrams; learns nothing")
    register("acme_chat", f"{__name__}.chat:backend", "chat models of Acme (base_url=…)")


@hookimpl
def register_metrics(register):
    """A metric for choice tasks."""
    register("acme_margin", f"{__name__}.margin:margin", task_types=["choice"])


@hookimpl
def run_finished(run):
    """A line about every run, on stderr; `run` is a `figeval.RunRecord`, as exporters get it."""
    done = sum(task.status == "done" for task in run.tasks)
    print(f"acme: {run.model.name} has done {done} of {len(run.tasks)} tasks")
