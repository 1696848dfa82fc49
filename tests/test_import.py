import subprocess
import sys


def test_importing_dpjax_loads_neither_jax_nor_scipy_nor_matplotlib():
    heavy = {"jax", "scipy", "matplotlib", "optax", "xarray", "pandas"}
    code = f"import sys, dpjax; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
