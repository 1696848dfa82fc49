"""The pages: in the index, linked, with every public name once; tutorials and notebooks run."""

import ast
import importlib
import inspect
import itertools
import pathlib
import re

import pytest

from dpjax.cli import main

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
ROOT = DOCS.parent
PACKAGES = sorted(p.parent.name for p in (ROOT / "dpjax").glob("*/__init__.py") if p.parent.name != "cli")
PAGES = sorted(p for p in DOCS.rglob("*.md") if not {"_build", "jupyter_execute"} & set(p.relative_to(DOCS).parts))
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.md"))
EXTERNAL = {"https://arxiv.org/abs/2602.22443"}  # links to other sites; tests fetch none


def _documented():
    """(page, name, object) of everything that the reference documents."""
    for page in sorted((DOCS / "reference").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for name, options in re.findall(r"^\.\. automodule:: ([\w.]+)\n((?:   .*\n)*)", text, flags=re.M):
            module = importlib.import_module(name)
            for member in [] if ":no-members:" in options else getattr(module, "__all__", ()):
                value = getattr(module, member)
                if inspect.getmodule(value) is not None and (value.__doc__ or "").strip():  # what automodule shows
                    yield page.stem, f"{name}.{member}", value
        current = re.search(r"^\.\. (?:py:)?currentmodule:: ([\w.]+)$", text, flags=re.M)
        for name in re.findall(r"^\.\. (?:autofunction|py:data):: (\w+)$", text, flags=re.M):
            yield page.stem, f"{current[1]}.{name}", _value(f"{current[1]}.{name}")


def test_every_public_name_is_in_the_reference_exactly_once():
    import dpjax

    names, objects = {}, {}
    for page, name, value in _documented():
        names.setdefault(name, []).append(page)
        objects.setdefault(id(value), []).append(name)
    assert {name: pages for name, pages in names.items() if len(pages) > 1} == {}
    shared = [found for found in objects.values() if len(found) > 1]
    assert all(isinstance(_value(name), str | int | float | tuple) for found in shared for name in found), shared
    for package in PACKAGES:
        module = importlib.import_module(f"dpjax.{package}")
        listed = [f"dpjax.{package}.{name}" for name in module.__all__]
        pages = {f"dpjax.{package}.{name}" for name in module.__all__} & set(names)
        modules = {name for name in listed if f".. automodule:: {name}\n" in (DOCS / "reference" / f"{package}.md").read_text()}
        assert pages | modules == set(listed), set(listed) - pages - modules
    overview = (DOCS / "reference" / "dpjax.md").read_text(encoding="utf-8")
    for name in dpjax.__all__:
        assert name == "__version__" or f"`{name}`" in overview, name
        value = getattr(dpjax, name)
        assert isinstance(value, str | type(ast)) or len(objects[id(value)]) == 1, name


def _value(name):
    module, _, member = name.rpartition(".")
    return getattr(importlib.import_module(module), member)


def test_every_page_is_in_the_index_once():
    lines = re.findall(r"^([\w/-]+)$", (DOCS / "index.md").read_text(encoding="utf-8"), flags=re.M)
    pages = sorted(str(page.relative_to(DOCS).with_suffix("")) for page in PAGES)
    assert sorted([*lines, "index"]) == pages


def _prose(text):
    """A page without its fenced blocks, its comments and its code."""
    text = re.sub(r"^ *(```+).*?^ *\1 *$", "", text, flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", lambda code: "x" * len(code[0]), text)


def _anchors(path):
    """The anchors of a page, as myst and GitHub make them of its headings."""
    text = re.sub(r"^ *(```+).*?^ *\1 *$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    headings = re.findall(r"^#{1,3} (.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_files_and_headings_and_the_others_are_listed():
    external = set()
    for page in [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]:
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^()\s]+)\)", _prose(text)):
            if re.match(r"https?://", link):
                external.add(link)
                continue
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if "_build" in target.parts:  # figures that the build draws
                assert target.suffix == ".png", (page.name, link)
                continue
            assert target.is_file(), (page.name, link)
            assert not anchor or anchor in _anchors(target), (page.name, link)
        for name in re.findall(r"\{doc\}`([\w/-]+)`", text):
            assert (page.parent / f"{name}.md").is_file(), (page.name, name)
        for image in re.findall(r"!\[(.*?)\]\(", _prose(text), flags=re.S):
            assert len(image.split()) >= 4, (page.name, image)  # a text alternative
    assert external == EXTERNAL


def test_the_questions_name_tests_that_exist():
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "faq.md").read_text(encoding="utf-8")))
    known = {name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())}
    assert len(named) > 20
    assert named <= known, named - known


def test_the_csv_of_the_reproduction_has_the_columns_that_the_experiments_write():
    from dataclasses import fields

    from experiments.reproduction import Row

    header, *rows = (DOCS / "reproduction.csv").read_text(encoding="utf-8").splitlines()
    assert header.split(",") == [field.name for field in fields(Row)]
    assert len(rows) == 45


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_runs(page, monkeypatch, tmp_path):
    """Its cells in order, in one namespace; each figure of it can be drawn."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plt.close("all")
    cells = re.findall(
        r"^```\{code-cell\} ipython3\n(?:---\n.*?^---\n)?(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.S | re.M
    )
    drawn = page.read_text(encoding="utf-8").count("plt.subplots(")
    assert page.read_text(encoding="utf-8").count("    alt: ") == drawn  # a text alternative for each figure
    names = {}
    for cell in cells:
        exec(compile(cell, str(page), "exec"), names)
    assert len(cells) > 5
    assert len(plt.get_fignums()) == drawn >= 2
    for number in plt.get_fignums():
        plt.figure(number).savefig(tmp_path / f"{number}.png")
    plt.close("all")


def test_every_top_level_name_can_be_had_and_has_a_docstring():
    import dpjax

    for name in dpjax.__all__:
        value = getattr(dpjax, name)
        assert name == "__version__" or (value.__doc__ or "").strip(), name


def _blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.S)


def test_the_quickstart_runs(capsys):
    names = {}
    exec("\n".join(_blocks("quickstart.md", "python")), names)
    assert names["private"].shape == (1000,)
    assert "total variation of a row: mean 0." in capsys.readouterr().out


def test_the_page_on_publishing_a_matrix_does_what_it_says(shared_data, tmp_path, monkeypatch, capsys):
    """Its commands on the real file; what it quotes of the statement and of the price is there."""
    pytest.importorskip("pyarrow")
    text = " ".join((DOCS / "publish-matrix.md").read_text(encoding="utf-8").replace("\n>", "\n").split())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zones.csv").write_text("".join(f"{zone}\n" for zone in range(1, 264)))
    (tmp_path / "green_tripdata_2025-11.parquet").symlink_to(shared_data / "nyc_tlc" / "green_tripdata_2025-11.parquet")
    shell = [block.replace("\\\n", " ").split() for block in _blocks("publish-matrix.md", "sh") if block.startswith("dpjax")]
    for command in shell:
        assert main(command[1:]) == 0
    out = capsys.readouterr().out
    for line in _blocks("publish-matrix.md", "text")[0].splitlines():
        assert line in out, line
    statement = " ".join((tmp_path / "release" / "statement.txt").read_text().split())
    for quote in re.findall(r"^> (.*?)\n\n", (DOCS / "publish-matrix.md").read_text(encoding="utf-8"), flags=re.S | re.M):
        assert " ".join(quote.replace("\n>", "\n").split()).removesuffix("...).") in statement, quote
    assert "46,912 rows" in text
    assert "46,253 of the 46,912 records" in text
    assert "records used: 46,253" in out
    assert "records read: 46,912" in (tmp_path / "private.txt").read_text()
    rows = (tmp_path / "release" / "model.csv").read_text().splitlines()
    assert (rows[0].split(",")[0], len(rows)) == ("from", 264)


def test_the_page_on_publishing_a_stream_does_what_it_says(tmp_path, monkeypatch, capsys):
    """Its commands on its chain; what it quotes of the price is there, and each private step is a transition of the chain."""
    monkeypatch.chdir(tmp_path)
    chain, *quoted = _blocks("publish-stream.md", "text")
    (tmp_path / "turns.csv").write_text(chain)
    (tmp_path / "day.txt").write_text("home\nwork\nwork\nlunch\nwork\nhome\nshop\nhome\n")
    price, run = (block.split() for block in _blocks("publish-stream.md", "sh"))
    assert main(price[1:]) == 0
    out = capsys.readouterr().out
    for line in quoted[0].splitlines():
        assert line in out, line
    assert "One state replaced by another: epsilon 3.9296, a factor of at most 50.89 in the probability of what is seen." in out
    assert main([*run[1 : run.index("<")], "day.txt", "-o", "private.txt"]) == 0
    private = (tmp_path / "private.txt").read_text().split()
    pairs = {tuple(line.split(",")[:2]) for line in chain.splitlines()[1:]}
    assert len(private) == 8
    assert set(itertools.pairwise(private)) <= pairs
    assert '"epsilon": 2.0' in (tmp_path / "statement.json").read_text()


def test_the_reader_of_the_page_on_extending_reads(tmp_path):
    names = {}
    exec(_blocks("extending.md", "python")[3], names)
    (tmp_path / "visits.csv").write_text("ann;1;home\nbob;1;work\nann;2;work\nann;3;home\nbob;2;work\n")
    data = names["read_visits"](tmp_path / "visits.csv")
    assert (data.labels, data.counts.tolist()) == (("home", "work"), [[0, 1], [1, 1]])
    assert data.report.summary() == "Read 5 visits, kept 3; dropped 2 first visits of a person."
