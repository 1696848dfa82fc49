"""Every public name has its page, and every page is in the index."""

import importlib
import itertools
import pathlib
import re

import pytest

from dpjax.cli import main

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
PACKAGES = sorted(p.parent.name for p in (DOCS.parent / "dpjax").glob("*/__init__.py") if p.parent.name not in ("cli", "selection"))


def test_every_package_is_in_the_reference_with_all_that_it_exports():
    text = (DOCS / "reference.md").read_text()
    for package in PACKAGES:
        assert f".. automodule:: dpjax.{package}\n" in text, package
        module = importlib.import_module(f"dpjax.{package}")
        assert all(hasattr(module, name) for name in module.__all__)
    for name in ("permute_and_flip", "exponential_mechanism"):
        assert f".. automodule:: dpjax.selection.{name}\n" in text


def test_every_page_is_in_the_index():
    index = (DOCS / "index.md").read_text()
    pages = {str(p.relative_to(DOCS).with_suffix("")) for p in DOCS.rglob("*.md") if "_build" not in p.parts} - {"index"}
    listed = set(re.findall(r"^([\w/-]+)$", index, flags=re.M))
    assert pages <= listed, pages - listed


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
