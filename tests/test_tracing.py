"""Checks of traced values: none by default, checkify errors under `debug_checks`, and no cached program taken for a checked one."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

import dpjax
from dpjax._tracing import at_once, check_traced, is_traced
from dpjax.chains import gth, stationary_distribution


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


def test_what_is_concrete_runs_at_once_within_every_transformation():
    found = []

    def f(x):
        with at_once():
            found.append(float(jnp.ones(3).sum()))
            with at_once():
                found.append(float(jnp.ones(3).sum()))
            found.append(float(jax.jit(jnp.sum)(jnp.ones(3))))
        return 2 * x

    transformed = (f, jax.jit(f), jax.grad(f), jax.vmap(f), jax.jit(jax.vmap(f)), lambda x: jax.lax.map(f, x))
    for transform, x in zip(transformed, (1.0, 1.0, 1.0, jnp.ones(2), jnp.ones(2), jnp.ones(2)), strict=True):
        transform(x)
    assert found == [3.0] * (3 * len(transformed))


def test_no_constant_of_a_kernel_is_a_program_of_its_own(caplog):
    P = jnp.asarray(np.random.default_rng(0).dirichlet(np.ones(4), (11, 4)), jnp.float32)  # a shape of no other test
    before = gth._cache_size()
    with jax.log_compiles():
        checked = stationary_distribution(P)
    programs = [line for line in caplog.messages if line.startswith("Finished XLA compilation")]
    assert 0 < len(programs) <= 5, programs  # there were 39
    np.testing.assert_array_equal(gth(P), checked)
    assert gth._cache_size() == before + 1  # a direct call had a program of its own
