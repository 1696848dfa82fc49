"""Faults at the surface: rounding of rationals, pytrees with wrong leaves, concrete numbers inside a trace, traced numbers out of range."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import counts, design, exponential_mechanism, permute_and_flip, simplex
from dpjax._errors import InputError
from dpjax._rationals import float_up
from dpjax.simplex import theorem1
from tests.unchecked import as_a_user_has_it  # noqa: F401

KEY = jax.random.key(0)
GRADES = {"eta": 0.073, "n_records": 98, "n_categories": 5}
C5 = np.full(5, 0.2)
TABLE = np.array([[70, 20, 10], [30, 40, 0]])


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(2, 3), Fraction(1, 7), Fraction(10, 3), Fraction(1, 4)])
def test_a_rational_epsilon_is_stated_no_smaller_than_it_is(epsilon):
    m = counts.DiscreteLaplaceMechanism(epsilon=epsilon)
    stated = m.exact_epsilon()
    assert isinstance(stated, float)
    assert epsilon <= Fraction(stated) == Fraction(float_up(epsilon)) <= epsilon * (1 + Fraction(1, 2**52))
    assert m.exact_delta(stated) == 0.0
    assert isinstance(m.scale, float)
    assert Fraction(m.scale) >= 2 / epsilon
    assert m.pmf(40).sum() > 0.9
    assert np.isfinite(m.privatize(KEY, TABLE)).all()
    sampler = counts.mechanism("laplace").calibrate(epsilon=0.3, adjacency="add-remove").exact_sampler(epsilon=0.3, delta=0.0)
    assert Fraction(sampler.mechanism.exact_epsilon()) >= 1 / sampler.parameter


def test_figures_beyond_float64_are_refused():
    for k in (5e-324, 1e-308):
        with pytest.raises(InputError, match="beyond the range of float64"):
            simplex.expected_kl(C5, k)
    for records, k in ((1e308, 5.0), (1e13, 1e-300)):
        with pytest.raises(InputError, match="beyond the range of float64"):
            simplex.expected_kl_bound(records, 3, k)
    assert np.isfinite(simplex.expected_kl(C5, 1e-300))


def rows_mechanism():
    rows = simplex.PublicRows(
        n_records=np.array([100.0, 70.0]), support=np.array([[1, 1, 1], [1, 1, 0]], bool), eta=np.array([0.05, 0.2])
    )
    return simplex.MatrixMechanism(rows=rows, k=np.array([40.0, 25.0]))


MECHANISMS = {
    "matrix": (rows_mechanism(), np.array([[0.7, 0.2, 0.1], [0.4, 0.6, 0.0]])),
    "rows": (counts.DirichletRows(rows_mechanism()), TABLE),
    "laplace": (counts.DiscreteLaplaceMechanism(epsilon=Fraction(1, 3)), TABLE),
    "gaussian": (counts.DiscreteGaussianMechanism(variance=3.7), TABLE),
    "pseudocount": (counts.PseudocountMechanism(scale=0.5, pseudocount=12.0), TABLE),
}
WRONG = {
    "nan": lambda x: x * np.nan,
    "negative": lambda x: -x,
    "zero": lambda x: 0 * x,
    "inf": lambda x: x * np.inf,
    "text": lambda x: "k",
    "several": lambda x: np.stack([x, x]),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", MECHANISMS)
def test_what_states_a_claim_or_draws_checks_the_leaves_of_a_pytree(name, wrong):
    m, data = MECHANISMS[name]
    bad = jax.tree.map(WRONG[wrong], m)
    calls = [lambda: bad.exact_epsilon(1e-3), lambda: bad.exact_delta(1.0), lambda: bad.privatize(KEY, data)]
    if name != "matrix":
        calls.append(lambda: bad.law(TABLE, TABLE > 0, np.dtype(np.float32)))
    if name in ("laplace", "gaussian"):
        calls += [lambda: bad.pmf(4), lambda: bad.noise_variance]
    for call in calls:
        with pytest.raises(InputError):
            call()


@pytest.mark.parametrize("field", ["k", "eta", "n_records"])
def test_every_leaf_of_a_matrix_is_checked_where_a_claim_is_stated(field):
    def change(path, x):
        return -x if path[-1].name == field else x

    bad = jax.tree_util.tree_map_with_path(change, rows_mechanism())
    with pytest.raises(InputError, match=field):
        bad.exact_delta(1.0)


def test_arrays_as_leaves_state_the_same_claims():
    for m, data in MECHANISMS.values():
        again, single = jax.tree.map(np.asarray, m), jax.tree.map(jnp.float32, m)
        assert again.exact_delta(1.0) == jax.tree.map(lambda x: x, m).exact_delta(1.0)
        np.testing.assert_allclose(single.exact_delta(1.0), m.exact_delta(1.0), rtol=1e-5)
        assert np.isfinite(single.privatize(KEY, data)).all()


P = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.05, 0.35, 0.6]])
COSTS = np.array([0.0, 0.4, 1.7])
CONCRETE = {
    "exact_delta": lambda: simplex.exact_delta(1.0, k=249.0, **GRADES),
    "renyi_divergence": lambda: simplex.renyi_divergence(2.0, k=20.6, **GRADES),
    "expected_kl": lambda: simplex.expected_kl(C5, 20.6),
    "expected_kl_bound": lambda: simplex.expected_kl_bound(98, 5, 20.6),
    "equation6": lambda: theorem1.equation6(20.6, 0.073, 98, 5, 1e-3, 0.8),
    "exact_delta of a table": lambda: counts.PseudocountMechanism(scale=0.5, pseudocount=12.0).exact_delta(1.0),
    "stationary_law": lambda: design.stationary_law(P, 300.0).covariance,
    "law": lambda: permute_and_flip.law(COSTS, 0.7),
    "sample": lambda: permute_and_flip.sample(KEY, COSTS, 0.7),
    "samples": lambda: exponential_mechanism.sample(KEY, COSTS, 0.7, shape=(3,)),
}


def test_concrete_arguments_give_the_claim_within_the_trace_of_another_function():
    claims = {name: np.asarray(call()) for name, call in CONCRETE.items()}
    inside = {}

    def step(carry, x):
        inside.update({name: np.asarray(call()) for name, call in CONCRETE.items()})
        return carry + inside["exact_delta"].item() * x, x

    jax.eval_shape(lambda x: jax.lax.scan(jax.jit(step), x, x[None]), jnp.float32(1))
    for name, claim in claims.items():
        assert inside[name].dtype == claim.dtype
        np.testing.assert_array_equal(inside[name], claim, err_msg=name)


def test_costs_of_numpy_are_drawn_from_with_a_traced_key():
    for sample in (permute_and_flip.sample, exponential_mechanism.sample):
        assert int(jax.jit(lambda key, sample=sample: sample(key, COSTS, 0.7))(KEY)) == int(sample(KEY, COSTS, 0.7))


def grades(k=20.6, eta=0.073, n_records=98.0):
    return simplex.DirichletMechanism(k=k, eta=eta, n_records=n_records, n_categories=5)


def gaussian(v):
    return counts.DiscreteGaussianMechanism(variance=v)


def smoothed(s):
    return counts.PseudocountMechanism(scale=s, pseudocount=12.0)


OUT_OF_RANGE = {  # a function of x -> a figure; where it is right; where there is none
    "k": (lambda x: simplex.exact_epsilon(1e-3, k=x, eta=0.073, n_records=98.0, n_categories=5), 20.6, (np.nan, -1.0, 0.0, np.inf)),
    "delta of a mechanism": (
        lambda x: simplex.exact_epsilon(1e-3 * x, k=20.6, eta=0.073 * x, n_records=98.0, n_categories=5),
        1.0,
        (np.nan, 0.0, -1.0),
    ),
    "n_records": (lambda x: simplex.epsilon_floor(1e-3, eta=0.073, n_records=x, n_categories=5), 98.0, (np.nan, 0.0, -98.0)),
    "alpha": (lambda x: grades(x).renyi(2.0), 20.6, (np.nan, -20.6, 0.0)),
    "draw": (lambda x: grades(x).privatize(KEY, C5), 20.6, (np.nan, -1.0, 0.0)),
    "rows": (
        lambda x: jax.tree.map(lambda y: y * x, rows_mechanism()).privatize(KEY, MECHANISMS["matrix"][1]),
        1.0,
        (np.nan, -1.0),
    ),
    "table": (lambda x: smoothed(x).privatize(KEY, TABLE), 0.5, (np.nan, -0.5, 0.0)),
    "laplace": (lambda x: counts.DiscreteLaplaceMechanism(epsilon=x).exact_epsilon(), 0.5, (np.nan, -0.5, 0.0, np.inf)),
    "laplace draw": (lambda x: counts.DiscreteLaplaceMechanism(epsilon=x).privatize(KEY, TABLE), 0.5, (np.nan, -0.5, 0.0)),
    "gaussian": (lambda x: gaussian(x).exact_epsilon(1e-3), 3.7, (np.nan, -3.7, 0.0, np.inf)),
    "gaussian draw": (lambda x: gaussian(x).privatize(KEY, TABLE), 3.7, (np.nan, -3.7, 0.0)),
    "least pseudo-count": (lambda x: counts.least_pseudocount(epsilon=1.0, delta=x), 1e-3, (np.nan, -1.0, 0.0, 1.0)),
    "expected_kl": (lambda x: simplex.expected_kl(jnp.stack([1 - x, x]), 20.6), 0.3, (np.nan, -0.3, 1.3)),
    "bound": (lambda x: simplex.expected_kl_bound(98.0, 5, 20.6, x), 0.073, (np.nan, -0.3, 0.3)),
    "law of costs": (lambda x: permute_and_flip.law(jnp.stack([1 + 0 * x, x]), 0.7), 1.5, (np.nan, -np.inf)),
    "law of scale": (lambda x: exponential_mechanism.log_law(COSTS, x), 0.7, (np.nan, -0.7, np.inf)),
    "stationary_law": (
        lambda x: design.stationary_law(jnp.asarray(P, x.dtype).at[0, 0].set(x), 300.0).stationary,
        0.7,
        (np.nan, -0.7),
    ),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_a_traced_number_out_of_range_gives_nan_and_the_others_their_value(name):
    call, good, bad = OUT_OF_RANGE[name]
    points = jnp.asarray([good, *bad])
    found = np.asarray(jax.jit(jax.vmap(lambda x: jnp.asarray(call(x))))(points))
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1:]).all()


def test_a_pytree_of_a_compiled_function_is_no_way_round():
    bad = jax.tree.map(lambda x: -x, smoothed(0.5))
    assert np.isnan(jax.jit(lambda m: m.exact_delta(1.0))(bad))


def test_a_cost_that_is_none_draws_no_candidate():
    costs = jnp.array([[0.0, 1.0, 2.0], [0.0, np.nan, 1.0], [0.0, -np.inf, 1.0]])
    for shape in ((), (4,)):
        drawn = np.asarray(jax.jit(lambda x, shape=shape: permute_and_flip.sample(KEY, x, 0.7, shape=shape))(costs))
        assert (drawn[..., 0] >= 0).all()
        assert (drawn[..., 1:] == -1).all()


def test_shapes_are_checked_under_a_trace():
    for n in (4, 3):
        with pytest.raises(InputError, match=rf"C holds {n} shares.*n_categories is 5"):
            jax.eval_shape(grades().privatize, KEY, jax.ShapeDtypeStruct((n,), np.float32))
    assert jax.eval_shape(grades().privatize, KEY, jax.ShapeDtypeStruct((7,), np.float32)).shape == (7,)
    for kind in (np.int32, np.uint8):
        with pytest.raises(InputError, match="C holds whole numbers, not shares"):
            jax.eval_shape(lambda C: simplex.expected_kl(C, 20.6), jax.ShapeDtypeStruct((5,), kind))


def test_shapes_that_do_not_broadcast_are_named():
    two, three = np.array([1e-3, 1e-4]), np.array([20.0, 30.0, 40.0])
    public = {"eta": 0.073, "n_records": 98, "n_categories": 5}
    calls = (
        lambda x, y: simplex.exact_epsilon(x, k=y, **public),
        lambda x, y: simplex.exact_delta(x, k=y, **public),
        lambda x, y: simplex.renyi_divergence(1 + x, k=y, **public),
        lambda x, y: simplex.epsilon_floor(x, eta=0.073, n_records=y, n_categories=5),
        lambda x, y: simplex.expected_kl_bound(98 + x, 5, y),
        lambda x, y: simplex.expected_kl(jnp.full((2, 5), 0.2), y),
    )
    for call in calls:
        with pytest.raises(InputError, match=r"\(2,\).*\(3,\)|\(3,\).*\(2,\)"):
            call(two, three)
        with pytest.raises(InputError, match=r"\(2,\).*\(3,\)|\(3,\).*\(2,\)"):
            jax.eval_shape(call, jax.ShapeDtypeStruct((2,), np.float32), jax.ShapeDtypeStruct((3,), np.float32))
