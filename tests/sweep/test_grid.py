"""Axes, ranges, products, zips, shards, and the keys of cells."""

import jax
import numpy as np
import pytest

from dpjax.sweep.grid import Grid, Shard, axis_values, canonical


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ([1, 2.5], (1, 2.5)),
        (3, (3,)),
        ("vector", ("vector",)),
        ({"start": 0.1, "stop": 0.5, "step": 0.1}, (0.1, 0.2, 0.3, 0.4, 0.5)),
        ({"start": 1, "stop": 10, "step": 3}, (1, 4, 7, 10)),
        ({"start": 1, "stop": 9, "step": 3}, (1, 4, 7)),
        ({"start": 1, "stop": 0, "step": -0.5}, (1.0, 0.5, 0.0)),
        ({"start": 0, "stop": 1, "num": 5}, (0.0, 0.25, 0.5, 0.75, 1.0)),
        ({"start": 0, "stop": 0.3, "num": 4}, (0.0, 0.1, 0.2, 0.3)),
        ({"start": 1, "stop": 1000, "num": 4, "log": True}, (1.0, 10.0, 100.0, 1000.0)),
        ({"start": 1e-3, "stop": 1e-1, "num": 3, "log": True}, (0.001, 0.01, 0.1)),
    ],
)
def test_values_of_an_axis(spec, values):
    got = axis_values("k", spec)
    assert got == values
    assert [type(v) for v in got] == [type(v) for v in values]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ([], "k is empty"),
        ([1.0, float("inf")], "k holds inf. Give finite values"),
        ([1, [2]], r"k holds \[2\]. Give numbers"),
        ([1, "2"], "values of one kind"),
        ({"start": 1, "stop": 2}, "either step or num"),
        ({"start": 1, "stop": 2, "step": 1, "num": 2}, "either step or num"),
        ({"start": 1, "stop": 2, "steps": 1}, r"k\.steps is not a known key. Did you mean k\.step"),
        ({"start": 1, "stop": 2, "step": -1}, r"k\.step is -1. Give a step that leads from start 1 towards stop 2"),
        ({"start": 1, "stop": 2, "step": 0}, r"k\.step is 0"),
        ({"start": 1, "stop": 2, "step": 1e-9}, "at most 1000000"),
        ({"start": 0, "stop": 2, "num": 3, "log": True}, "Give positive ends to a logarithmic range"),
        ({"start": 1, "stop": 2, "num": 1}, r"k\.num is 1. Give a whole number, at least 2"),
        ({"start": 1, "stop": 2, "step": 1, "log": True}, "Give log = true or false, with num"),
        ({"start": "1", "stop": 2, "num": 3}, r"k\.start is '1'. Give a finite number"),
    ],
)
def test_bad_axes_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        axis_values("k", spec)


def test_products_and_zips():
    grid = Grid(axes={"k": (1, 2, 3), "eta": (0.1, 0.2), "rho": (5.0, 6.0, 7.0)}, zips=(("k", "rho"),))
    assert grid.dims == {"k_rho": ("k", "rho"), "eta": ("eta",)}
    assert (grid.shape, grid.size) == ((3, 2), 6)
    assert [dict(cell.values) for cell in grid.cells[:3]] == [
        {"k": 1, "rho": 5.0, "eta": 0.1},
        {"k": 1, "rho": 5.0, "eta": 0.2},
        {"k": 2, "rho": 6.0, "eta": 0.1},
    ]
    assert Grid(axes={}).cells[0].text == ""


@pytest.mark.parametrize(
    ("axes", "zips", "message"),
    [
        ({"k": (1, 1.0)}, (), r"^sweep\.axes\.k repeats 1\.0. Give each value once\.$"),
        ({"k": ("a", "b", "a")}, (), r'^sweep\.axes\.k repeats "a". Give each value once\.$'),
        ({"k": (1, 2, 1), "eta": (3, 4, 3)}, (("k", "eta"),), r"^sweep\.axes\.k and sweep\.axes\.eta repeat 1\.0, 3\.0. Give"),
        ({"k": (1, 2), "eta": (1,)}, (("k", "eta"),), "Zip two or more axes of one length"),
        ({"k": (1, 2)}, (("k",),), "Zip two or more axes"),
        ({"k": (1, 2), "eta": (1, 2)}, (("k", "et"),), r"zip\.et is not a known key. Did you mean zip\.eta"),
        ({"k": (1, 2), "a": (1, 2), "b": (1, 2)}, (("k", "a"), ("k", "b")), "each axis once"),
        ({"k=1": (1, 2)}, (), "has no plain name"),
    ],
)
def test_bad_grids_are_refused(axes, zips, message):
    with pytest.raises(ValueError, match=message):
        Grid(axes=axes, zips=zips)


def test_a_huge_grid_is_refused_before_a_cell_is_made(monkeypatch):
    monkeypatch.setattr(Grid, "cells", property(lambda grid: pytest.fail("cells were made")))
    axes = {"k": tuple(range(10**5)), "eta": tuple(range(10**5))}
    message = r"^sweep\.axes make 100,000 x 100,000 = 10,000,000,000 cells, at most 1,000,000 are allowed. Give fewer values, zip"
    with pytest.raises(ValueError, match=message):
        Grid(axes=axes)
    assert Grid(axes=axes, zips=(("k", "eta"),)).size == 10**5
    assert Grid(axes={"k": tuple(range(1000)), "eta": tuple(range(1000))}).size == 10**6
    with pytest.raises(ValueError, match=r"^sweep\.axes make 1,000 x 1,001 = 1,001,000 cells"):
        Grid(axes={"k": tuple(range(1000)), "eta": tuple(range(1001))})


def test_the_text_of_a_value():
    assert [canonical(v) for v in (1, 1.0, -0.0, True, "1", 2**60, 1e-9)] == [
        "1.0",
        "1.0",
        "0.0",
        "true",
        '"1"',
        str(2**60),
        "1e-09",
    ]


def test_keys_rest_on_seed_and_values_alone():
    def key(seed, **values):
        return tuple(np.asarray(jax.random.key_data(Grid(axes={n: (v,) for n, v in values.items()}).cells[0].key(seed))))

    assert key(0, k=1, eta=0.5) == key(0, eta=0.5, k=1.0)
    assert len({key(0, k=1), key(1, k=1), key(0, k=2), key(0, rho=1), key(0, k="1.0"), key(0), key(0, k=True)}) == 7
    assert key(0, k=1) == (1094944957, 3509382701)  # fixed: stored sweeps rest on it


@pytest.mark.parametrize("total", [1, 2, 3, 4, 7])
def test_shards_share_out_every_cell_once(total):
    grid = Grid(axes={"k": tuple(range(5))})
    shared = [cell.text for i in range(1, total + 1) for cell in Shard(index=i, total=total).of(grid)]
    assert sorted(shared) == sorted(cell.text for cell in grid.cells)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/2"])
def test_bad_shards_are_refused(text):
    with pytest.raises(ValueError, match="shard is"):
        Shard.parse(text)
