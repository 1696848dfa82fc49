"""Shapes and dtypes of annotations are checked by beartype here, and only here; promotion of dtypes and ranks is strict."""

import os
import pathlib

import jaxtyping
import pytest

_HOOK = jaxtyping.install_import_hook("dpjax", "pep484.check")

import jax  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

SHARED_DATA = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of real files beside the project; its absence skips, or fails where DPJAX_REQUIRE_SHARED_DATA is set."""
    path = pathlib.Path(os.environ.get("DPJAX_SHARED_DATA", SHARED_DATA))
    if not path.is_dir():
        reason = f"the real data files are not at {path}"
        if os.environ.get("DPJAX_REQUIRE_SHARED_DATA"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path
