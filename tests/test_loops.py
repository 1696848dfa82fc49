"""Every loop without a counter says beside it why it ends."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1] / "dpjax"


def unbounded(source):
    """The lines of `while` statements and calls of while_loop without a comment "# ends: ..." on them or on the line before."""
    lines = source.splitlines()
    found = []
    for node in ast.walk(ast.parse(source)):
        called = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "while_loop"
        if isinstance(node, ast.While) or called:
            near = lines[max(node.lineno - 2, 0) : node.lineno]
            if not any("# ends: " in line for line in near):
                found.append(node.lineno)
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_loop_says_why_it_ends(path):
    assert unbounded(path.read_text(encoding="utf-8")) == []


def test_the_scan_sees_a_loop_without_a_reason():
    assert unbounded("x = 1\n\nwhile x:\n    x = f(x)\n") == [3]
    assert unbounded("y = lax.while_loop(c, b, s)\nz = while_loop(c, b, s)\n") == [1, 2]
    assert unbounded("# ends: x falls\nwhile x:\n    x -= 1\n") == []
