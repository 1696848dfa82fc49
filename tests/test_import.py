import subprocess
import sys


def test_importing_dpjax_loads_neither_jax_nor_scipy_nor_matplotlib():
    code = "import sys, dpjax; heavy = {'jax', 'scipy', 'matplotlib', 'optax', 'xarray', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
