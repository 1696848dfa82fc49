"""The examples of the page run as they stand, one after the other."""

import pathlib
import re

import jax
import numpy as np

from dpjax.simplex import MatrixMechanism

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "design.md"


def test_the_examples_of_the_page_run(capsys):
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, names)
    assert "private: exact delta" in capsys.readouterr().out


def test_the_loop_of_the_page_on_differentiation_chooses_k_for_each_row(capsys):
    """By gradients, through public names alone: near the largest k that the accountant allows, and certified."""
    page = PAGE.with_name("differentiation.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    names: dict = {}
    with jax.numpy_dtype_promotion("standard"):  # optax mixes its step count with floats
        exec(block, names)
    assert "(1, 1e-05)-private: exact delta" in capsys.readouterr().out
    best = MatrixMechanism.calibrate(rows=names["rows"], epsilon=1.0, delta=1e-5).k
    ratio = names["mechanism"].k / best
    assert ((ratio > 0.9) & (ratio < 1)).all(), ratio
    assert (np.asarray(names["rows"].k_min) < 0.8 * best).all()  # power: not where the search began
