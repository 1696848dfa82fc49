"""Seeded stand-ins for the operating system's whole numbers, and the command in this process and in one of its own."""

import os
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest

from dpjax.chains import MarkovChain

ROOT = pathlib.Path(__file__).resolve().parents[2]
P3 = np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]])
COUNTS3 = "from,A,B,C\nA,92,5,3\nB,4,91,5\nC,1,9,90\n"


@pytest.fixture
def below():
    """A seeded generator in the place of the operating system's whole numbers, so that a statistical test gives one verdict."""
    return random.Random(1).randrange


@pytest.fixture(scope="session")
def chain3():
    return MarkovChain.from_matrix(P3, labels=["A", "B", "C"])


@pytest.fixture
def chain_file(tmp_path):
    path = tmp_path / "chain.csv"
    path.write_text(COUNTS3)
    return path


@pytest.fixture
def start():
    """The command, started: pipes for all three streams, in bytes."""

    def run(*arguments, **options):
        code = "import sys; from dpjax.cli import main; sys.exit(main())"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=environment, cwd=ROOT, **pipes)

    return run


@pytest.fixture
def call(chain_file, tmp_path_factory, capfdbinary, monkeypatch):
    """`privatize-trajectory` on the three-state chain in this process, `data` on its standard input: exit code, output, errors."""
    from dpjax.cli import main

    def run(data, *arguments):
        source = tmp_path_factory.mktemp("standard") / "input"
        source.write_bytes(data)
        capfdbinary.readouterr()
        words = ["privatize-trajectory", "--chain", chain_file, "--epsilon", "1", "--rho", "3", *arguments]
        with open(source, encoding="utf-8") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", stream)
            code = main([str(word) for word in words])
        out, errors = capfdbinary.readouterr()
        return code, out, errors.decode()

    return run
