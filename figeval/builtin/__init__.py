"""The built-in benchmarks, prompts, models and results: `figeval.builtin.{tasks,templates,plugins,results}`.

In a wheel they are inside this package. In a checkout (and an editable install) they are the top-level folders of
the repository, which this file makes importable under the same names.
"""

from pathlib import Path

_checkout = Path(__file__).resolve().parent.parent.parent
if (_checkout / "pyproject.toml").is_file():
    __path__.append(str(_checkout))
