"""Checks of traced values: none by default, checkify errors under `debug_checks`, and no cached program taken for a checked one."""

import jax
import jax.numpy as jnp
from jax.experimental import checkify

import dpjax
from dpjax._tracing import check_traced, is_traced


@jax.jit
def _double(x):
    check_traced(x > 0, "x", "be positive, got {x}", x=x)
    return 2 * x


def _twice(x):
    return _double(x) + 0


def test_a_traced_value_is_not_checked_by_default():
    assert float(jax.jit(_twice)(jnp.float32(-1))) == -2


def test_debug_checks_report_a_wrong_traced_value_even_after_an_unchecked_program_was_compiled():
    _double(jnp.float32(-1))
    with dpjax.debug_checks():
        error, value = jax.jit(checkify.checkify(_twice))(jnp.float32(-1))
        assert "x must be positive, got -1.0" in error.get()
        assert float(value) == -2
        assert jax.jit(checkify.checkify(_twice))(jnp.float32(1))[0].get() is None
    assert float(_double(jnp.float32(-1))) == -2


def test_a_batch_is_checked_whole():
    with dpjax.debug_checks():
        checked = checkify.checkify(jax.vmap(_twice))
        assert checked(jnp.array([1.0, 2.0]))[0].get() is None
        assert "x must be positive" in checked(jnp.array([1.0, -2.0]))[0].get()


def test_a_leaf_of_a_pytree_is_found_traced():
    found = []
    jax.jit(lambda x: found.append(is_traced({"a": [1.0, x]})) or x)(1.0)
    assert found == [True]
    assert not is_traced({"a": [1.0, jnp.ones(2)]}, None)
