"""Imports and functions of Python files, each of which is parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # fields of a statement that contain statements


@dataclass(frozen=True)
class Parsed:
    """Every import of a file with the name of the function around it, and (name, first line, last line) of its
    functions; the name is empty at module level.
    """

    imports: tuple[tuple[ast.Import | ast.ImportFrom, str], ...]
    functions: tuple[tuple[str, int, int], ...]

    @property
    def imports_from(self) -> Iterator[ast.ImportFrom]:
        return (node for node, _ in self.imports if isinstance(node, ast.ImportFrom))


@cache
def parse(file: Path) -> Parsed:
    imports, functions = [], []
    for node, function in statements(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append((node, function))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append((node.name, node.lineno, node.end_lineno or node.lineno))
    return Parsed(tuple(imports), tuple(functions))


def statements(node: ast.AST, function: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Yield the statements within a node, each with the name of the innermost function around it."""
    for block in BLOCKS:
        for child in getattr(node, block, ()):
            yield child, function
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from statements(child, child.name if is_function else function)
