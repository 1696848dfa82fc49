"""A batch of laws is read law by law: under vmap the properties and the losses give what each law gives alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import design

MATRICES = np.random.default_rng(0).dirichlet(np.full(4, 2.0), (4, 4))  # as many as states: a wrong axis would not even fail
K = np.random.default_rng(1).uniform(50, 500, (4, 4))


@pytest.fixture(scope="module")
def laws():
    with jax.enable_x64(True):
        return jax.vmap(design.stationary_moments)(jnp.asarray(MATRICES), jnp.asarray(K))


@pytest.mark.parametrize("name", ["mean", "variance", "standard_error"])
def test_properties_of_a_batch_are_those_of_each_law(laws, name):
    alone = [getattr(design.stationary_law(P, k), name) for P, k in zip(MATRICES, K, strict=True)]
    with jax.enable_x64(True):
        np.testing.assert_allclose(getattr(laws, name), alone, rtol=1e-12)


@pytest.mark.parametrize("loss", [design.total_variation, design.squared_error, design.divergence])
@pytest.mark.parametrize("weights", [1.0, np.arange(1.0, 5.0)])
def test_losses_of_a_batch_are_those_of_each_law(laws, loss, weights):
    alone = [design.stationary_law(P, k) for P, k in zip(MATRICES, K, strict=True)]
    with jax.enable_x64(True):
        together = loss(laws, laws.stationary, weights)
        assert together.shape == (4,)
        np.testing.assert_allclose(together, [design.evaluate(loss, law, law.stationary, weights) for law in alone], rtol=1e-12)
