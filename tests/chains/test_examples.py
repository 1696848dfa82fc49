"""The examples in the docstrings and on the page of the chains package run and say what they show."""

import doctest
import importlib
import pathlib

import pytest

MODULES = ["chain", "counting", "mixing", "simulate", "stationary"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(f"dpjax.chains.{name}")).failed == 0


def test_page():
    page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "chains.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0
