import importlib
import pathlib
import subprocess
import sys

import pytest

EXPERIMENTS = pathlib.Path(__file__).resolve().parents[1] / "experiments"


def test_importing_dpjax_loads_neither_jax_nor_scipy_nor_matplotlib():
    heavy = {"jax", "scipy", "matplotlib", "optax", "xarray", "pandas"}
    code = f"import sys, dpjax; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(path.stem for path in EXPERIMENTS.glob("*.py")))
def test_every_experiment_imports(name):
    """One imported a module that had moved, and nothing noticed until it was run."""
    importlib.import_module(f"experiments.{name}")


def test_python_m_experiments_says_how_to_use_it():
    done = subprocess.run(
        [sys.executable, "-m", "experiments", "--help"], capture_output=True, text=True, check=False, cwd=EXPERIMENTS.parent
    )
    assert done.returncode == 0, done.stderr
    assert "--data" in done.stdout
