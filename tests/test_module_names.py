"""No module is loaded under two names: its classes and registries would exist twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = (
    "run --tasks mini_fables,mini_pairs --model overlap -o run",
    *("ls", "ls tasks", "ls models", "ls metrics", "ls routes", "ls heads", "ls presets", "ls layouts", "ls plugins"),
    *("show run", "show mini_fables", "compare run run", "difficulty run", "power mini_pairs", "verify run"),
    *("export run --to markdown", "report run --no_plots -o page.html", "board run -o site", "checklist run"),
    *("audit mini_fables", "annotate --help", "contamination --help", "train --help", "doctor"),
)
PROGRAM = """
import contextlib, io, json, os, sys
from collections import defaultdict
from figeval.cli.main import cli, main

for words in json.loads(sys.argv[2]):
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            main(words.split())
        except SystemExit as ended:
            if ended.code == 2 and cli.get_command(None, words.split()[0]) is not None:
                print(words, file=sys.stderr)
for group in (cli, *(command for command in cli.commands.values() if hasattr(command, "lazy"))):
    for name in group.list_commands(None):
        group.get_command(None, name)
names = defaultdict(list)
for name, module in list(sys.modules.items()):
    file = getattr(module, "__file__", None)
    if file and os.path.realpath(file).startswith(sys.argv[1] + os.sep) and "site-packages" not in file:
        names[os.path.realpath(file)].append(name)
print(json.dumps(names))
"""


@pytest.mark.slow
def test_no_module_is_loaded_under_two_names(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(ROOT), json.dumps(COMMANDS)]
    done = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=True)
    names = json.loads(done.stdout.splitlines()[-1])
    assert not {file: module_names for file, module_names in names.items() if len(module_names) > 1}
    loaded = {name.split(".")[2] for (name, *_) in names.values() if name.startswith("figeval.wings.")}
    assert loaded == {folder.parent.name for folder in (ROOT / "figeval/wings").glob("*/__init__.py")}
    assert len(names) > 200
