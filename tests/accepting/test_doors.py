"""Keys, labels and chains that are none are refused at the door by a sentence; numbers at the edge are right or refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import unchecked
from scipy import sparse

import dpjax
from benchmarks.accepting import coupled
from dpjax import MarkovChain, chains, counts
from dpjax.release import Plan

as_a_user_has_it = unchecked.as_a_user_has_it
CHAIN = MarkovChain.from_matrix([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
SHARES, COUNTS = [0.39, 0.30, 0.15, 0.08, 0.08], [38, 29, 15, 8, 8]
MECHANISM = dpjax.TrajectoryMechanism(CHAIN, epsilon=1.0, rho=1.0)
STATE = MECHANISM.init(jax.random.key(0))[0]


def _counts(name, delta=1e-3):
    return counts.mechanism(name).calibrate(epsilon=1.0, delta=delta, adjacency="replace")


DOORS = {
    "dirichlet": lambda key: dpjax.DirichletMechanism(k=20.6, eta=0.073, n_records=98, n_categories=5).privatize(key, SHARES),
    "pseudocount": lambda key: dpjax.PseudocountMechanism(scale=0.5, pseudocount=20.0).privatize(key, COUNTS),
    "discrete-laplace": lambda key: _counts("discrete-laplace", 0.0).privatize(key, COUNTS),
    "discrete-gaussian": lambda key: _counts("discrete-gaussian").privatize(key, COUNTS),
    "uniform": lambda key: _counts("uniform", 0.0).privatize(key, COUNTS),
    "permute-and-flip": lambda key: dpjax.permute_and_flip.sample(key, jnp.array([0.0, 1.0]), 1.0),
    "exponential": lambda key: dpjax.selection.exponential_mechanism.sample(key, jnp.array([0.0, 1.0]), 1.0),
    "simulate": lambda key: chains.simulate(key, CHAIN, 5),
    "init": lambda key: MECHANISM.init(key)[1],
    "step": lambda key: MECHANISM.step(key, STATE, 1)[1],
    "privatize": lambda key: MECHANISM.privatize(key, [0, 1, 2]),
    "sample": lambda key: MECHANISM.sample(key, [0, 1, 2], 2),
    "Mechanism 2": lambda key: dpjax.ChenMechanism(CHAIN, epsilon=1.0, b=1).privatize(key, [0, 1, 2]),
    "randomised response": lambda key: dpjax.trajectory.RandomisedResponse(CHAIN, epsilon=1.0).privatize(key, [0, 1, 2]),
}
NO_KEYS = {
    "a seed": (lambda: 0, "jax.random.key"),
    "a NumPy seed": (lambda: np.int64(3), "jax.random.key"),
    "a float": (lambda: 1.5, "jax.random.key"),
    "None": (lambda: None, "jax.random.key"),
    "split keys": (lambda: jax.random.split(jax.random.key(0), 3), "jax.vmap"),
    "split raw keys": (lambda: jax.random.split(jax.random.PRNGKey(0), 3), "jax.vmap"),
    "another generator": (lambda: jax.random.key(0, impl="rbg"), "threefry"),
    "numbers": (lambda: jnp.array([0, 1]), "jax.random.key"),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_wrong_key_is_refused_and_a_raw_key_is_the_typed_one(door):
    for name, (make, words) in NO_KEYS.items():
        if door in ("init", "step") and "split" in name:
            continue  # many runs at once, a key for each
        with pytest.raises(ValueError, match=r"^key .+\. .+") as caught:
            DOORS[door](make())
        assert words in str(caught.value), name
    typed = np.asarray(DOORS[door](jax.random.key(7)))
    for raw in (jax.random.PRNGKey(7), np.asarray(jax.random.PRNGKey(7))):
        np.testing.assert_array_equal(np.asarray(DOORS[door](raw)), typed)


def test_keys_may_be_traced_and_mapped():
    m = dpjax.DirichletMechanism(k=20.6, eta=0.073, n_records=98, n_categories=5)
    keys = jax.random.split(jax.random.key(0), 3)
    many = jax.vmap(lambda key: m.privatize(key, jnp.array(SHARES)))(keys)
    np.testing.assert_allclose(many[1], m.privatize(keys[1], jnp.array(SHARES)), rtol=1e-5)
    assert jax.jit(lambda key: chains.simulate(key, CHAIN, 4))(keys[0]).shape == (5,)


@pytest.mark.parametrize(
    "labels", [(1, 2), ["a", 2], (1.0, 2.0), (None, "a"), ("a", "a"), ("1", "1.0"), ("a", " a"), ("", "a"), "ab"]
)
def test_labels_of_a_plan_are_distinct_texts(labels):
    with pytest.raises(ValueError, match="label"):
        Plan.make(labels, epsilon=1.0, delta=0.01)
    assert Plan.make(["NA", "007"], epsilon=1.0, delta=0.01).labels == ("NA", "007")


@pytest.mark.parametrize("coupling", [1e-3, 1e-9, 1e-12, 1e-15, 1e-16, 1e-30])
def test_a_nearly_decomposable_sparse_chain_has_its_law(coupling):
    pi = MarkovChain.from_matrix(coupled(3000, coupling)).stationary_distribution()
    np.testing.assert_allclose(pi.reshape(3, -1).sum(1), 1 / 3, rtol=1e-9)


def test_an_uneven_nearly_decomposable_chain_too():
    n = 1500
    P = coupled(3 * n, 0.0).tolil()[: 2 * n, : 2 * n]
    for there, out in ((0, 3e-15), (n, 1e-15)):
        P[there, there] -= out
        P[there, (there + n) % (2 * n)] = out
    pi = MarkovChain.from_matrix(sparse.csr_array(P)).stationary_distribution()
    np.testing.assert_allclose(pi.reshape(2, -1).sum(1), [0.25, 0.75], rtol=1e-6)


def test_a_chain_too_large_to_be_eliminated_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"nearly decomposable.*fewer states"):
        MarkovChain.from_matrix(coupled(9000, 1e-15)).stationary_distribution()


def test_the_advice_for_a_reducible_chain_names_a_closed_class():
    big = np.array(
        [[0.4, 0.3, 0.2, 0.1, 0], [0.3, 0.4, 0.3, 0, 0], [0.3, 0.3, 0.4, 0, 0], [0, 0, 0, 0.5, 0.5], [0, 0, 0, 0.2, 0.8]]
    )
    chain = MarkovChain.from_matrix(big, labels=list("abcde"))
    for call in (
        chain.require_irreducible,
        lambda: dpjax.TrajectoryMechanism(chain, epsilon=1.0, rho=1.0),
        lambda: chains.mixing_time(big),
    ):
        with pytest.raises(ValueError, match=r"closed_class") as caught:
            call()
        assert "largest_class" not in str(caught.value)
    kept = chain.closed_class()
    assert kept.labels == ("d", "e")
    np.testing.assert_array_equal(kept.matrix, big[3:, 3:])
    assert chain.largest_class().labels == ("a", "b", "c")
    with pytest.raises(ValueError, match="transient"):
        chain.closed_class("a")
    two = MarkovChain.from_counts([[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6], [0, 0, 7, 8]], labels=list("wxyz"))
    with pytest.raises(ValueError, match="closed_class"):
        two.stationary_distribution()
    assert two.closed_class("z").labels == ("y", "z")
    assert two.closed_class("z").counts.tolist() == [[5, 6], [7, 8]]
    absorbing = MarkovChain.from_matrix([[0.5, 0.4, 0.1], [0.4, 0.5, 0.1], [0, 0, 1]], labels=list("abc"))
    with pytest.raises(ValueError, match=r"never returns: give \{'c'\} a transition back"):
        absorbing.require_irreducible()
    with pytest.raises(ValueError, match="closed class"):
        absorbing.closed_class()


TURNED = [
    np.array([[0.9, 0.3], [0.1, 0.7]]),
    np.array([[0.2, 0.5, 0.1], [0.3, 0.25, 0.8], [0.5, 0.25, 0.1]]),
]


@pytest.mark.parametrize("P", TURNED, ids=["two", "three"])
def test_columns_that_sum_to_one_are_to_be_transposed(P, tmp_path):
    from dpjax.datasets import read_probability_matrix

    path = tmp_path / "P.csv"
    names = "abc"[: len(P)]
    path.write_text(
        "\n".join([",".join(["", *names]), *(",".join([name, *map(str, row)]) for name, row in zip(names, P, strict=True))])
    )
    for call in (
        lambda: MarkovChain.from_matrix(P),
        lambda: MarkovChain.from_matrix(sparse.csr_array(P)),
        lambda: MarkovChain.from_matrix(P.astype(np.float32)),
        lambda: chains.stationary_distribution(P),
        lambda: chains.stationary_distribution(jnp.asarray(P)),
        lambda: chains.entropy_rate(P),
        lambda: chains.mixing_time(P),
        lambda: read_probability_matrix(path, kind="probabilities"),
    ):
        with pytest.raises(ValueError, match="olumns sum to 1: transpose it"):
            call()
    MarkovChain.from_matrix(P.T)
    with pytest.raises(ValueError, match="divide it by its sum"):
        MarkovChain.from_matrix(2 * P)


def test_jax_debugging_modes_give_the_same_or_refuse_plainly():
    transient = np.array([[0.5, 0.5, 0.0], [0.0, 0.4, 0.6], [0.0, 0.3, 0.7]])
    reducible = np.eye(3)
    wanted = chains.stationary_distribution(transient)
    m = dpjax.DirichletMechanism(k=20.6, eta=0.073, n_records=98, n_categories=5)
    drawn = m.privatize(jax.random.key(0), SHARES)
    for mode in (jax.debug_nans(True), jax.checking_leaks(), jax.disable_jit()):
        with mode:
            np.testing.assert_allclose(chains.stationary_distribution(transient), wanted, rtol=1e-12)
            np.testing.assert_allclose(chains.entropy_rate(transient), chains.entropy_rate(transient))
            with pytest.raises(ValueError, match="closed classes"):
                chains.stationary_distribution(reducible)
    for mode in (jax.debug_nans(True), jax.checking_leaks()):
        with mode:
            np.testing.assert_allclose(m.privatize(jax.random.key(0), SHARES), drawn, rtol=1e-6)


def test_derivatives_at_shares_that_are_tiny_or_zero_are_finite():
    for tiny in (0.0, 1e-300, 1e-40, 1e-16):
        P = np.array([[1 - tiny, tiny, 0.0], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
        with jax.enable_x64(True):
            for function in (
                lambda P: chains.row_entropies(P).sum(),
                lambda P: chains.stationary_distribution(P)[1],
                chains.entropy_rate,
            ):
                value, slope = jax.value_and_grad(lambda P, function=function: jnp.sum(function(P)))(jnp.asarray(P))
                assert np.isfinite(value), tiny
                assert np.isfinite(slope).all(), (tiny, function)


def test_draws_of_a_tiny_share_have_a_finite_derivative():
    """d log p / d alpha is about 1 / alpha^2, past the range of the type; the share itself is 0 there, and so is its derivative."""
    m = dpjax.DirichletMechanism(k=20.6, eta=0.073, n_records=98, n_categories=4)
    for dtype, tiny in ((jnp.float32, 0.0), (jnp.float32, 1e-30), (jnp.float32, 1e-20), (jnp.float64, 1e-300)):
        with jax.enable_x64(dtype == jnp.float64):
            shares = jnp.asarray([0.5, 0.3, 0.2 - tiny, tiny], dtype)
            slope = jax.jacobian(lambda C, m=m: m.privatize(jax.random.key(0), C))(shares)
            assert np.isfinite(slope).all(), (dtype, tiny)
