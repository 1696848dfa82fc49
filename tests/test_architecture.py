"""The structure of the package: no import circles, few modules of a sensible length, and a page that names every package."""

import ast
import pathlib

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph

ROOT = pathlib.Path(__file__).resolve().parents[1]
LONGEST = 500
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.glob("dpjax/**/*.py"))}
MODULES = {name.removesuffix(".__init__"): path for name, path in MODULES.items()}
MOST = 144
PACKAGES = sorted(path.parent.name for path in ROOT.glob("dpjax/*/__init__.py"))


def _is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(tree):
    """(module, name) of every import, those within functions included and those under TYPE_CHECKING not; name is None for a module."""
    waiting = [tree]
    while waiting:  # ends: a tree is finite
        node = waiting.pop()
        if _is_type_checking(node):
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "the package imports by full names"
            yield from ((node.module, alias.name) for alias in node.names)
        waiting.extend(ast.iter_child_nodes(node))


def graph_of(sources):
    """For each module the modules in which what it imports is defined; sources: text by module name."""
    trees = {name: ast.parse(text) for name, text in sources.items()}
    packages = {name.rpartition(".")[0] for name in sources}
    exported = {
        name: {what: (where, what) for where, what in imports(tree) if what} for name, tree in trees.items() if name in packages
    }

    def home(module, name):
        if f"{module}.{name}" in sources:
            return f"{module}.{name}"
        where = exported.get(module, {}).get(name)
        return home(*where) if where and where[0] in sources else module

    graph = {}
    for name, tree in trees.items():
        targets = {home(module, what) if what else module for module, what in imports(tree)}
        graph[name] = {target for target in targets if target in sources and target != name}
    return graph


def circles(graph):
    """The sets of nodes that lead to each other, sorted."""
    names = sorted(graph)
    edges = [(names.index(one), names.index(other)) for one in names for other in graph[one]]
    rows, columns = zip(*edges, strict=True)
    matrix = sparse.coo_array((np.ones(len(edges)), (rows, columns)), shape=(len(names), len(names)))
    count, component = csgraph.connected_components(matrix, connection="strong")
    members = [[name for name, of in zip(names, component, strict=True) if of == i] for i in range(count)]
    return sorted(some for some in members if len(some) > 1)


@pytest.fixture(scope="module")
def graph():
    return graph_of({name: path.read_text(encoding="utf-8") for name, path in MODULES.items()})


def test_no_modules_import_each_other(graph):
    assert sum(map(len, graph.values())) > 300  # power: the graph is that of the package
    assert circles(graph) == []


def test_no_packages_import_each_other(graph):
    packages = {}
    for one, targets in graph.items():
        ours = ".".join(one.split(".")[:2])
        theirs = {".".join(name.split(".")[:2]) for name in targets} - {ours, "dpjax"}
        packages.setdefault(ours, set()).update(theirs if ours != "dpjax" else ())
    assert circles(packages) == []


def test_a_circle_is_found_whichever_way_it_is_closed():
    names = {"p": "", "p.a": "", "p.b": ""}
    assert circles(graph_of({**names, "p.a": "from p.b import x", "p.b": "import p.a"})) == [["p.a", "p.b"]]
    deferred = "def f():\n    from p import b"
    assert circles(graph_of({**names, "p.a": deferred, "p.b": "from p.a import f"})) == [["p.a", "p.b"]]
    through = {"p": "from p.b import x", "p.a": "def f():\n    from p import x", "p.b": "from p.a import f"}
    assert ["p.a", "p.b"] in circles(graph_of(through))
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import x"
    assert circles(graph_of({**names, "p.a": typed, "p.b": "import p.a"})) == []


def test_there_are_few_modules():
    assert len(MODULES) <= MOST


def test_no_module_is_too_long():
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}


def test_the_page_on_the_architecture_names_every_package():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert PACKAGES
    assert [name for name in PACKAGES if f"`{name}`" not in page] == []
