"""The gamma sampler's contract: its bits, its numbering of draws, its types and its bad input. Its law is in tests/statistical."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from jax.extend.core import jaxprs_in_params

from dpjax.simplex import _gamma_lanes as gamma_bits
from dpjax.simplex._gamma_lanes import redraw_rejected
from dpjax.simplex.gamma import log_gamma_draws

KEY = jax.random.key(2024)
SHAPES = jnp.array([0.01, 0.5, 1.0, 1.5, 40.0], jnp.float32)


def words(values):
    return jnp.asarray(values, jnp.uint32)


def test_the_ends_of_the_uniform_are_open_and_fine():
    zero, ones = words([0]), words([2**32 - 1])
    assert float(gamma_bits.open_unit(zero, None, jnp.float32)[0]) == 2.0**-33
    assert float(gamma_bits.open_unit(zero, zero, jnp.float32)[0]) == 2.0**-65
    assert float(gamma_bits.exponential(zero, zero, jnp.float32)[0]) == pytest.approx(65 * np.log(2), rel=1e-6)
    assert float(gamma_bits.exponential(ones, ones, jnp.float32)[0]) == 0


@pytest.mark.parametrize(("x64", "rtol"), [(False, 4e-7), (True, 1e-14)])
def test_normals_are_quantiles_of_their_bits_far_into_the_tail(x64, rtol):
    with jax.enable_x64(x64):
        dtype = jnp.float64 if x64 else jnp.float32
        high = (np.logspace(0, 9.6, 500)).astype(np.uint32)
        low = np.full(500, 12345, np.uint32)
        x = np.asarray(gamma_bits.standard_normal(words(high), words(low) if x64 else None, dtype))
    last = low if x64 else high
    tail = (high + (last | 1) * 2.0**-32) * 2.0**-32 if x64 else (high | 1) * 2.0**-32
    expected = np.where(last & 1, 1, -1) * -scipy.special.ndtri(tail / 2)
    np.testing.assert_allclose(x, expected, rtol=rtol, atol=rtol)
    assert np.abs(expected).max() > 6


def test_more_draws_leave_the_first_ones_as_they_are():
    many = np.asarray(log_gamma_draws(KEY, SHAPES, 5000))
    for n_draws in (1, 100, 1000):
        np.testing.assert_array_equal(log_gamma_draws(KEY, SHAPES, n_draws), many[:n_draws])


@pytest.mark.parametrize("n_components", [1, 5, 67, 600])
def test_a_block_may_start_anywhere(n_components):
    """Across one row of lanes and many, padded and not, with and without the compacted buffer."""
    alpha = jnp.linspace(0.3, 3.0, n_components, dtype=jnp.float32)
    many = np.asarray(log_gamma_draws(KEY, alpha, 2000))
    for first, n_draws in ((5, 40), (1960, 40), (129, 900)):
        np.testing.assert_array_equal(log_gamma_draws(KEY, alpha, n_draws, first=first), many[first : first + n_draws])


def test_the_last_sample_numbers_can_be_drawn():
    last = log_gamma_draws(KEY, SHAPES, 3, first=2**32 - 3)
    assert np.all(np.isfinite(last))
    np.testing.assert_array_equal(log_gamma_draws(KEY, SHAPES, 1, first=2**32 - 1), last[2:])


def test_a_component_knows_nothing_of_its_neighbours_shapes():
    here = log_gamma_draws(KEY, SHAPES, 200)
    there = log_gamma_draws(KEY, SHAPES.at[1].set(7.0), 200)
    np.testing.assert_array_equal(np.delete(here, 1, axis=1), np.delete(there, 1, axis=1))
    assert not np.any(here[:, 1] == there[:, 1])


def test_the_shape_of_alpha_is_only_a_shape():
    grid = jnp.linspace(0.5, 9.0, 6, dtype=jnp.float32)
    flat = log_gamma_draws(KEY, grid, 50)
    np.testing.assert_array_equal(log_gamma_draws(KEY, grid.reshape(2, 3), 50).reshape(50, 6), flat)
    assert log_gamma_draws(KEY, jnp.float32(2.0), 50).shape == (50,)


def test_jit_and_vmap_give_the_same_draws():
    eager = log_gamma_draws(KEY, SHAPES, 300)
    np.testing.assert_array_equal(jax.jit(lambda key, a, i: log_gamma_draws(key, a, 300, first=i))(KEY, SHAPES, 0), eager)
    keys = jax.random.split(KEY, 3)
    mapped = jax.vmap(lambda key: log_gamma_draws(key, SHAPES, 30))(keys)
    for key, draws in zip(keys, mapped, strict=True):
        np.testing.assert_array_equal(draws, log_gamma_draws(key, SHAPES, 30))


def test_shapes_are_traced_and_sizes_are_static():
    traces = []

    @jax.jit
    def drawn(key, alpha):
        traces.append(1)
        return log_gamma_draws(key, alpha, 20)

    for scale in (0.1, 1.0, 100.0):
        drawn(KEY, SHAPES * scale)
    assert len(traces) == 1


def test_the_dtype_follows_alpha():
    assert log_gamma_draws(KEY, SHAPES, 10).dtype == jnp.float32
    with jax.enable_x64(True):
        draws = log_gamma_draws(KEY, np.array([0.3, 5.0]), 10)
        assert draws.dtype == jnp.float64
        assert not np.any(np.asarray(draws) == np.asarray(draws).astype(np.float32))


def test_zero_is_a_structural_zero():
    draws = log_gamma_draws(KEY, jnp.array([0.0, 1.0, 0.0], jnp.float32), 500)
    assert np.all(np.asarray(draws)[:, [0, 2]] == -np.inf)
    assert np.all(np.isfinite(np.asarray(draws)[:, 1]))


def test_no_loop_waits_for_a_nan():
    draws = jax.jit(lambda a: log_gamma_draws(KEY, a, 100))(jnp.array([jnp.nan, 2.0], jnp.float32))
    assert np.all(np.isnan(np.asarray(draws)[:, 0]))
    assert np.all(np.isfinite(np.asarray(draws)[:, 1]))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_every_rejected_lane_is_redrawn_once_accepted(share):
    """A proposal that tells its lane and attempt, accepted from a lane-dependent attempt on: full and empty buffers alike."""
    rows, width = 1500, 256
    generator = np.random.default_rng(7)
    missing = generator.random((rows, width)) < share
    needed = generator.integers(1, 5, size=(rows, width)).astype(np.uint32)
    table = jnp.asarray(needed)

    def propose(row, lane, attempt):
        reached = attempt >= table.at[row, lane].get(mode="fill", fill_value=99)
        reply = (row * jnp.uint32(width) + lane).astype(jnp.float32) * 8 + attempt.astype(jnp.float32)
        return jnp.where(reached, reply, jnp.inf)

    result = jax.jit(lambda values: redraw_rejected(values, propose))(jnp.where(missing, jnp.inf, jnp.float32(-1.0)))
    reply = np.arange(rows * width).reshape(rows, width) * 8 + needed
    np.testing.assert_array_equal(result, np.where(missing, reply, -1))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"alpha": jnp.array([1.0, -0.5])}, "alpha is"),
        ({"alpha": jnp.array([1.0, jnp.nan])}, "alpha is"),
        ({"alpha": jnp.array([1.0, jnp.inf])}, "alpha is"),
        ({"alpha": jnp.array([1, 2])}, "alpha is"),
        ({"alpha": jnp.zeros((0,))}, r"alpha\.size is 0"),
        ({"n_draws": 0}, "n_draws is 0"),
        ({"n_draws": 2**30}, r"n_draws \* alpha\.size is"),
        ({"first": -1}, "first is -1"),
        ({"first": 2**32}, "first is"),
    ],
)
def test_bad_input_is_named(arguments, named):
    good = {"alpha": SHAPES, "n_draws": 3, "first": 0}
    with pytest.raises(ValueError, match=named):
        log_gamma_draws(KEY, **(good | arguments))


def branches_of(jaxpr):
    """How many conditionals and how many choices are on whole arrays of draws, in a jaxpr and all inside it."""
    found = {"cond": 0}
    waiting = [jaxpr]
    while waiting:  # ends: a program is finite
        for equation in waiting.pop().eqns:
            found["cond"] += equation.primitive.name == "cond"
            waiting.extend(jaxprs_in_params(equation.params))
    return found["cond"]


def test_the_branch_for_shapes_below_one_stays_a_branch_under_vmap():
    """It became a choice between both branches, on a hash spread over the batch: XLA then moved that spreading one operation a pass."""
    from dpjax.simplex import dirichlet

    def loss(k):
        return jnp.sum(dirichlet(KEY, k * jnp.arange(1.0, 6.0, dtype=jnp.float32), 30) ** 2)

    ks = jnp.arange(1, 8, dtype=jnp.float32)
    for f in (loss, jax.vmap(loss), jax.vmap(jax.grad(loss)), jax.grad(lambda ks: jax.vmap(loss)(ks).sum())):
        x = ks[0] if f is loss else ks
        assert branches_of(jax.make_jaxpr(f)(x).jaxpr) == 1
    mixed = jnp.array([0.05, 20.0], jnp.float32)  # one lane with shapes below 1, one without
    found, loop = jax.vmap(loss)(mixed), [loss(k) for k in mixed]
    np.testing.assert_allclose(found, loop, rtol=1e-6)


def test_a_vmapped_gradient_of_a_draw_compiles_without_a_report_of_a_loop(capfd):
    """A program that no cache holds: its constant is new. `log_dirichlet`'s and a matrix' gradients were reported too."""
    import time

    from dpjax.simplex import dirichlet

    salt = 1 + (time.time_ns() % 10**6) * 1e-6

    def loss(a):
        return salt * jnp.sum(dirichlet(KEY, a, 7) ** 2)

    points = jnp.asarray(np.random.default_rng(3).uniform(0.3, 4.0, (3, 6, 6)), jnp.float32)
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(loss)))(points)
    assert "simplif" not in capfd.readouterr().err
    one = jax.jit(jax.value_and_grad(loss))
    for value, slope, point in zip(values, slopes, points, strict=True):
        expected = one(point)
        np.testing.assert_allclose(value, expected[0], rtol=1e-5)
        np.testing.assert_allclose(slope, expected[1], rtol=1e-4, atol=1e-5 * np.abs(slope).max())
