"""Every derivative against central differences in float64, many random points at once: one compiled function for each case.

For f of a vector x, at each point and along one direction d there: the gradient, the forward derivative and the Hessian, under vmap and
jit together, against (f(x + h d) - f(x - h d)) / 2h and the same difference of gradients.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

STEP = 1e-5


class Derivatives:
    """f, its gradient, its derivative along d and its Hessian, compiled once for all points."""

    def __init__(self, f, *, hessian=True):
        def everything(x, d):
            second = jax.hessian(f)(x) if hessian else jnp.zeros((x.size, x.size), x.dtype)
            return f(x), jax.grad(f)(x), jax.jvp(f, (x,), (d,))[1], second

        self.hessian = hessian
        self.everything = jax.jit(jax.vmap(everything))

    def check(self, x, d, rtol=1e-6, second_rtol=1e-5):
        """Assert all of it at the points x, (points, size), along the directions d; `rtol` of the largest value seen."""
        x, d = jnp.asarray(x), jnp.asarray(d)
        (_, gradient, forward, second), up, down = (self.everything(x + s * STEP * d, d) for s in (0, 1, -1))
        slope = (up[0] - down[0]) / (2 * STEP)
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 0
        scale = np.abs(slope).max()
        np.testing.assert_allclose(jnp.sum(gradient * d, axis=1), slope, rtol=rtol, atol=rtol * scale)
        np.testing.assert_allclose(forward, slope, rtol=rtol, atol=rtol * scale)
        assert not np.allclose(0.99 * forward, slope, rtol=rtol, atol=rtol * scale)  # the tolerance sees one per cent
        if self.hessian:
            bend = (up[1] - down[1]) / (2 * STEP)
            product = jnp.einsum("pij,pj->pi", second, d)
            np.testing.assert_allclose(product, bend, rtol=second_rtol, atol=second_rtol * max(np.abs(bend).max(), 1e-4 * scale))
            np.testing.assert_allclose(second, second.transpose(0, 2, 1), atol=1e-9 * max(np.abs(second).max(), 1))
        return gradient, second


@pytest.fixture
def derivatives():
    with jax.enable_x64(True):
        yield Derivatives


@pytest.fixture
def points():
    """(count, size) standard normal points and directions."""

    def make(seed, count, size):
        return np.random.default_rng(seed).normal(size=(2, count, size))

    return make
