"""A task in Python: a function that yields examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from figeval.spec.tasks import TaskSpec
from figeval.types import Example

Source = Callable[[], Iterator[Example]]


def task(*, name: str, protocol: str, **settings: Any) -> Callable[[Source], TaskSpec]:
    """Make a task of a generator of examples; `settings` are the keys of a task file except `data` and `fields`.

    ```python
    @task(name="acme_pairs", protocol="pairs", labels=("idiom", "literal"), metrics=("acc",))
    def acme_pairs():
        yield PairExample(id="1", left="…", right="…", label="idiom")
    ```
    Register the result with `register(acme_pairs)` in `register_tasks`.
    """

    def make(source: Source) -> TaskSpec:
        description = settings.pop("description", None) or (source.__doc__ or "").strip().split("\n")[0]
        return TaskSpec.model_validate(
            {"name": name, "protocol": protocol, "description": description, "examples": source, **settings}
        )

    return make
