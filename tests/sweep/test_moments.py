"""Streamed moments against NumPy on the pile of samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.sweep.blocks import Moments, combine, on_host, reduce_block

EDGES = (-1.0, 0.0, 0.25, 2.0)


def streamed(samples, block):
    """The moments of samples (count, *dims), block by block, the last block padded with values that must not count."""
    total = None
    for first in range(0, len(samples), block):
        part = samples[first : first + block]
        padded = np.concatenate([part, np.full((block - len(part), *samples.shape[1:]), np.nan, dtype=samples.dtype)])
        with jax.enable_x64(True):
            reduced = jax.jit(reduce_block, static_argnums=2)(jnp.asarray(padded), jnp.uint32(len(part)), EDGES)
        moments = on_host("x", len(part), reduced)
        total = moments if total is None else combine(total, moments)
    return total


@pytest.mark.parametrize("shape", [(), (2, 3)])
@pytest.mark.parametrize("block", [1, 64, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_numpy(shape, block, dtype):
    samples = (1e3 + np.random.default_rng(0).normal(size=(200, *shape))).astype(dtype)
    samples[3] = 0.25 if dtype == np.float64 else 0.0  # on an edge, and far from the rest
    got, pile = streamed(samples, block), samples.astype(np.float64)
    assert got.count == 200
    np.testing.assert_allclose(got.mean, pile.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(got.std, pile.std(axis=0, ddof=1), rtol=1e-12)
    np.testing.assert_allclose(got.sem, pile.std(axis=0, ddof=1) / np.sqrt(200), rtol=1e-12)
    np.testing.assert_array_equal(got.minimum, pile.min(axis=0))
    np.testing.assert_array_equal(got.maximum, pile.max(axis=0))
    counts = np.stack([np.sum(np.digitize(pile, EDGES) == b, axis=0) for b in range(len(EDGES) + 1)])
    np.testing.assert_array_equal(got.histogram, counts)


def test_a_small_deviation_about_a_large_mean_survives():
    """A sum of squares would lose it: 1e8 + {0, 1} in float64 has variance 1/4 to 16 digits only if it is centred first."""
    samples = 1e8 + np.tile([0.0, 1.0], 500)
    np.testing.assert_allclose(streamed(samples, 64).m2, 250.0, rtol=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_sample_that_is_no_finite_number_is_refused(bad):
    samples = np.zeros(100)
    samples[77] = bad
    with pytest.raises(ValueError, match="measure x has samples that are not finite"):
        streamed(samples, 10)


def test_whole_numbers_and_booleans_are_counted():
    with jax.enable_x64(True):
        got = on_host("x", 4, reduce_block(jnp.array([True, False, True, True]), jnp.uint32(4), (0.5,)))
    assert (got.mean, got.minimum, got.maximum) == (0.75, 0.0, 1.0)
    np.testing.assert_array_equal(got.histogram, [1, 3])


def test_the_wrong_shape_is_refused_here():
    """Power of the annotations: moments of two shapes cannot be one record."""
    with pytest.raises(Exception, match="minimum"):
        Moments(count=1, mean=np.zeros(2), m2=np.zeros(2), minimum=np.zeros(3), maximum=np.zeros(2), below=np.zeros((0, 2), int))
