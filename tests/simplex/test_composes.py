"""Every public function and method of simplex, counts, selection and design under jit, vmap, grad, scan and with a batch axis.

`CASES` is the table. The value and its gradient are computed at three points by vmap, inside a scan inside one program where that is small; the
accountants' programs are shared by their rows, and their scan is traced only. The values are the claims for concrete numbers, one by one; the
gradient agrees with a central difference between the points. A cell that is not "yes" has its reason.
"""

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import dpjax
from dpjax import counts, design, exponential_mechanism, permute_and_flip, simplex
from dpjax._errors import InputError
from dpjax.chains import MarkovChain
from dpjax.trajectory import TrajectoryMechanism
from dpjax.trajectory.joint import joint_start
from tests.unchecked import as_a_user_has_it  # noqa: F401

STEP = 1e-5
KEY = jax.random.key(0)
VMAP = "takes one; its error names jax.vmap"
DRAWS = "leading axes are independent draws of one key, where vmap of one key repeats a draw; one for each key is the same"
DRAW = "a draw: its derivative is that at a fixed quantile, not of the sampler's path; tests/statistical compares its mean"
WHOLE = "whole numbers: no derivative"


class Case(NamedTuple):
    """One row of the table.

    call: a function of traced float arrays -> an array. at: where it is asked. cells: the cells of "grad" and "batch" that are not "yes",
    with the reason; all rows are "yes" under jit, vmap and scan. rtol: of the gradient beside the difference.
    """

    name: str
    call: Callable[..., Any]
    at: tuple[Any, ...]
    cells: Mapping[str, str] = {}
    rtol: float = 1e-6

    @property
    def heavy(self):
        """Whether it is an accountant, whose program is large."""
        return any(word in self.name for word in ("epsilon", "exact_delta", "renyi", "omega", "Mechanism.delta", "least"))


GRADES = {"eta": 0.073, "n_records": 98.0, "n_categories": 5}
TWO = {"eta": 0.1, "n_records": 50.0, "n_categories": 2}
SHARES = np.array([38, 29, 15, 8, 8]) / 98
SUPPORT = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 0]], bool)
P = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.05, 0.35, 0.6]])
TABLE = np.array([[70, 20, 10], [30, 40, 0], [0, 9, 0]])
CONCENTRATIONS = np.array([300.0, 80.0, 500.0])
COSTS = np.array([0.0, 0.4, 1.7, 0.9])


def grades(k, eta=0.073, n_records=98.0, **more):
    return simplex.DirichletMechanism(k=k, eta=eta, n_records=n_records, n_categories=5, **more)


def matrix(k, eta, records, **more):
    rows = simplex.PublicRows(n_records=records, support=SUPPORT, eta=eta)
    return simplex.MatrixMechanism(rows=rows, k=k, **more)


def smoothed(scale, alpha, **more):
    return counts.PseudocountMechanism(scale=scale, pseudocount=alpha, **more)


def table_rows(k):
    rows = simplex.PublicRows(n_records=TABLE.sum(axis=1), support=SUPPORT, eta=np.array([0.05, 0.2, 0.1]))
    return counts.DirichletRows(simplex.MatrixMechanism(rows=rows, k=k))


def loss_of(loss):
    return lambda Q, k: loss(design.stationary_law(_rows(Q), k), np.full(3, 1 / 3))


def _rows(x):
    """A transition matrix of free numbers, so that changes keep its rows' sums."""
    return x / x.sum(axis=-1, keepdims=True)


def walk():
    m = TrajectoryMechanism.under_hamming(MarkovChain.from_matrix(P), epsilon=1.0)
    return design.walk_of(m, joint_start(m.graph, 0, None))


ROWS = (np.array([40.0, 25.0, 1.0]), np.array([0.08, 0.2, 0.5]), np.array([200.0, 60.0, 9.0]))
GAMMA = {"gamma": 1e-3}
MECHANISM, ONE_MATRIX = {"batch": VMAP}, {"batch": VMAP}

CASES = [
    Case(
        "exact_delta",
        lambda e, k, eta, N: simplex.exact_delta(e, k=k, eta=eta, n_records=N, n_categories=5),
        (1.0, 20.6, 0.073, 98.0),
    ),
    Case(
        "exact_delta, 2",
        lambda e, k, eta, N: simplex.exact_delta(e, k=k, eta=eta, n_records=N, n_categories=2),
        (0.5, 20.0, 0.1, 50.0),
    ),
    Case(
        "exact_epsilon",
        lambda d, k, eta, N: simplex.exact_epsilon(d, k=k, eta=eta, n_records=N, n_categories=5),
        (1e-5, 20.6, 0.073, 98.0),
    ),
    Case(
        "exact_epsilon, 2",
        lambda d, k, eta, N: simplex.exact_epsilon(d, k=k, eta=eta, n_records=N, n_categories=2),
        (1e-3, 20.0, 0.1, 50.0),
    ),
    Case("epsilon_floor", lambda d, eta, N: simplex.epsilon_floor(d, eta=eta, n_records=N, n_categories=5), (1e-5, 0.073, 98.0)),
    Case("epsilon_floor, 2", lambda d, eta, N: simplex.epsilon_floor(d, eta=eta, n_records=N, n_categories=2), (1e-5, 0.1, 50.0)),
    Case(
        "renyi_divergence",
        lambda a, k, eta, N: simplex.renyi_divergence(a, k=k, eta=eta, n_records=N, n_categories=5),
        (2.0, 20.6, 0.073, 98.0),
    ),
    Case(
        "renyi_divergence, 2",
        lambda a, k, eta, N: simplex.renyi_divergence(a, k=k, eta=eta, n_records=N, n_categories=2),
        (2.0, 20.0, 0.1, 50.0),
    ),
    Case("equation6", lambda k, eta, N, g: simplex.equation6(k, eta, N, 5.0, g, 1 - 2 * eta), (25.0, 0.073, 98.0, 4e-4)),
    Case("omega_delta_at_corner", lambda k, eta, g: simplex.omega_delta_at_corner(k, eta, 5.0, g), (25.0, 0.073, 4e-4)),
    Case("expected_kl", lambda x, k: simplex.expected_kl(_rows(x), k), (np.append(SHARES, 1e-9), 20.6)),
    Case("expected_kl_bound", lambda N, k: simplex.expected_kl_bound(N, 5, k), (98.0, 20.6)),
    Case("expected_kl_bound, eta", lambda k, eta: simplex.expected_kl_bound(98, 5, k, eta=eta), (20.6, 0.073)),
    Case("dirichlet", lambda a: simplex.dirichlet(KEY, a, 3)[0], (np.array([2.0, 0.5, 7.0]),), {"grad": DRAW, "batch": DRAWS}),
    Case(
        "log_dirichlet", lambda a: simplex.log_dirichlet(KEY, a, 3)[0], (np.array([2.0, 0.5, 7.0]),), {"grad": DRAW, "batch": DRAWS}
    ),
    Case(
        "DirichletMechanism.exact_delta", lambda e, k, eta, N: grades(k, eta, N).exact_delta(e), (1.0, 20.6, 0.073, 98.0), MECHANISM
    ),
    Case(
        "DirichletMechanism.exact_epsilon",
        lambda d, k, eta, N: grades(k, eta, N).exact_epsilon(d),
        (1e-5, 20.6, 0.073, 98.0),
        MECHANISM,
    ),
    Case("DirichletMechanism.renyi", lambda a, k, eta: grades(k, eta).renyi(a), (2.0, 20.6, 0.073), MECHANISM),
    Case(
        "DirichletMechanism.epsilon", lambda k, eta, N, g: grades(k, eta, N, gamma=g).epsilon, (25.0, 0.073, 98.0, 4e-4), MECHANISM
    ),
    Case(
        "DirichletMechanism.tight_epsilon",
        lambda k, eta, N, g: grades(k, eta, N, gamma=g).tight_epsilon,
        (25.0, 0.073, 98.0, 4e-4),
        MECHANISM,
    ),
    Case("DirichletMechanism.delta", lambda k, eta, g: grades(k, eta, gamma=g).delta, (25.0, 0.073, 4e-4), MECHANISM),
    Case(
        "DirichletMechanism.privatize",
        lambda k, C: grades(k).privatize(KEY, _rows(C)),
        (20.6, SHARES),
        {"grad": DRAW, "batch": DRAWS},
    ),
    Case("MatrixMechanism.exact_delta", lambda e, k, eta, N: matrix(k, eta, N).exact_delta(e), (0.5, *ROWS), ONE_MATRIX),
    Case("MatrixMechanism.exact_epsilon", lambda d, k, eta, N: matrix(k, eta, N).exact_epsilon(d), (1e-5, *ROWS), ONE_MATRIX),
    Case("MatrixMechanism.epsilon", lambda k, eta, N: matrix(k, eta, N, **GAMMA).epsilon, ROWS, ONE_MATRIX),
    Case("MatrixMechanism.delta", lambda k, eta, N: matrix(k, eta, N, **GAMMA).delta, ROWS, ONE_MATRIX),
    Case(
        "MatrixMechanism.privatize",
        lambda k, C: matrix(k, 0.05, 300.0).privatize(KEY, _rows(jnp.where(SUPPORT, C, 0))),
        (ROWS[0], P),
        {"grad": DRAW, "batch": DRAWS},
    ),
    Case("PseudocountMechanism.exact_delta", lambda e, s, a: smoothed(s, a).exact_delta(e), (1.0, 0.5, 12.0), MECHANISM),
    Case("PseudocountMechanism.exact_epsilon", lambda d, s, a: smoothed(s, a).exact_epsilon(d), (1e-6, 0.5, 12.0), MECHANISM),
    Case(
        "PseudocountMechanism.exact_epsilon, add-remove",
        lambda d, s, a: smoothed(s, a, adjacency="add-remove").exact_epsilon(d),
        (1e-6, 0.5, 12.0),
        MECHANISM,
    ),
    Case(
        "PseudocountMechanism.privatize",
        lambda s, a, c: smoothed(s, a).privatize(KEY, c, SUPPORT),
        (0.5, 12.0, TABLE * 1.0),
        {"grad": DRAW, "batch": DRAWS},
    ),
    Case("least_pseudocount", lambda e, d: counts.least_pseudocount(epsilon=e, delta=d), (1.0, 1e-6), {"batch": VMAP}),
    Case(
        "least_pseudocount, add-remove",
        lambda e, d: counts.least_pseudocount(epsilon=e, delta=d, adjacency="add-remove"),
        (1.0, 1e-6),
        {"batch": VMAP},
    ),
    Case("DirichletRows.exact_delta", lambda e, k: table_rows(k).exact_delta(e), (0.5, ROWS[0]), ONE_MATRIX),
    Case("DirichletRows.privatize", lambda k: table_rows(k).privatize(KEY, TABLE), (ROWS[0],), {"grad": DRAW, "batch": DRAWS}),
    Case(
        "DiscreteLaplaceMechanism.exact_epsilon",
        lambda e: counts.DiscreteLaplaceMechanism(epsilon=e).exact_epsilon(0.0),
        (0.5,),
        MECHANISM,
    ),
    Case(
        "DiscreteLaplaceMechanism.exact_delta",
        lambda e: counts.DiscreteLaplaceMechanism(epsilon=e).exact_delta(1.0),
        (0.5,),
        {"grad": "0 everywhere: the mechanism is pure", **MECHANISM},
    ),
    Case(
        "DiscreteLaplaceMechanism.privatize",
        lambda e: counts.DiscreteLaplaceMechanism(epsilon=e).privatize(KEY, TABLE),
        (0.5,),
        {"grad": WHOLE, **MECHANISM},
    ),
    Case(
        "DiscreteGaussianMechanism.exact_delta",
        lambda e, v: counts.DiscreteGaussianMechanism(variance=v).exact_delta(e),
        (0.73, 3.7),
        MECHANISM,
    ),
    Case(
        "DiscreteGaussianMechanism.exact_delta, add-remove",
        lambda e, v: counts.DiscreteGaussianMechanism(variance=v, adjacency="add-remove").exact_delta(e),
        (0.73, 3.7),
        MECHANISM,
    ),
    Case(
        "DiscreteGaussianMechanism.exact_delta, persons",
        lambda e, v: counts.DiscreteGaussianMechanism(
            variance=v, adjacency=counts.Neighbours("replace", counts.PersonBound(3))
        ).exact_delta(e),
        (1.0, 400.0),
        MECHANISM,
    ),
    Case(
        "DiscreteGaussianMechanism.exact_epsilon",
        lambda d, v: counts.DiscreteGaussianMechanism(variance=v).exact_epsilon(d),
        (1e-5, 3.7),
        MECHANISM,
    ),
    Case(
        "DiscreteGaussianMechanism.privatize",
        lambda v: counts.DiscreteGaussianMechanism(variance=v).privatize(KEY, TABLE),
        (3.7,),
        {"grad": WHOLE, **MECHANISM},
    ),
    Case(
        "UniformGuess.exact_epsilon",
        lambda d: counts.UniformGuess().exact_epsilon(d),
        (1e-5,),
        {"grad": "0 everywhere: it reads no data"},
    ),
    Case(
        "UniformGuess.privatize",
        lambda c: counts.UniformGuess().privatize(KEY, c),
        (TABLE * 1.0,),
        {"grad": "0 everywhere: it reads no data"},
    ),
    Case("permute_and_flip.law", permute_and_flip.law, (COSTS, 0.7)),
    Case("permute_and_flip.log_law", permute_and_flip.log_law, (COSTS, 0.7)),
    Case("permute_and_flip.sample", lambda c, s: permute_and_flip.sample(KEY, c, s), (COSTS, 0.7), {"grad": WHOLE, "batch": DRAWS}),
    Case("exponential_mechanism.law", exponential_mechanism.law, (COSTS, 0.7)),
    Case("exponential_mechanism.log_law", exponential_mechanism.log_law, (COSTS, 0.7)),
    Case(
        "exponential_mechanism.sample",
        lambda c, s: exponential_mechanism.sample(KEY, c, s),
        (COSTS, 0.7),
        {"grad": WHOLE, "batch": DRAWS},
    ),
    Case(
        "stationary_law",
        lambda Q, k: jnp.concatenate([jnp.ravel(x) for x in design.stationary_law(_rows(Q), k)]),
        (P, CONCENTRATIONS),
        ONE_MATRIX,
    ),
    Case(
        "stationary_moments",
        lambda Q, k: design.stationary_moments(_rows(Q), k).covariance,
        (P, CONCENTRATIONS),
        ONE_MATRIX,
    ),
    Case(
        "stationary_error_bars",
        lambda Q, k, at: jnp.stack(design.stationary_error_bars(_rows(Q), k, at)),
        (P, CONCENTRATIONS, 0.95),
        ONE_MATRIX,
    ),
    Case(
        "first_order_elasticity",
        lambda Q, k: design.first_order_elasticity(_rows(Q), k),
        (P, CONCENTRATIONS),
        ONE_MATRIX,
    ),
    Case(
        "total_variation",
        loss_of(design.total_variation),
        (P, CONCENTRATIONS),
        {"batch": "leading axes of the law are a batch: tests/design/test_batches.py"},
    ),
    Case("squared_error", loss_of(design.squared_error), (P, CONCENTRATIONS), {"batch": "as total_variation"}),
    Case("divergence", loss_of(design.divergence), (P, CONCENTRATIONS), {"batch": "as total_variation"}),
    Case(
        "evaluate",
        lambda Q, k: design.evaluate(design.total_variation, design.stationary_law(_rows(Q), k), np.full(3, 1 / 3)),
        (P, CONCENTRATIONS),
        {"batch": "as total_variation"},
    ),
    Case(
        "expected_errors",
        lambda c: design.expected_errors(walk(), c),
        (np.array([0.3, 0.5, 0.4]),),
        {"batch": VMAP},
    ),
]


def _rows_of(eta):
    return simplex.PublicRows(n_records=200.0, support=SUPPORT, eta=eta)


HOST = {  # documented in the first line of each; a call of a traced number, or None: no argument can be traced
    "DirichletMechanism.calibrate": lambda x: simplex.DirichletMechanism.calibrate(epsilon=x, delta=1e-5, **GRADES).k,
    "DirichletMechanism.omega": lambda x: grades(x, gamma=4e-4).omega().delta,
    "MatrixMechanism.calibrate": lambda x: simplex.MatrixMechanism.calibrate(rows=_rows_of(0.05), epsilon=x, delta=1e-5).k,
    "MatrixMechanism.report": lambda x: matrix(x, *ROWS[1:]).report(1.0, 1e-5).k,
    "PublicRows.from_counts": lambda x: simplex.PublicRows.from_counts(x * TABLE.astype(np.float32), support=SUPPORT, eta=0.05).eta,
    "row_report": lambda x: simplex.row_report(_rows_of(0.05), epsilon=x, delta=1e-5).k,
    "PseudocountMechanism.calibrate": lambda x: smoothed(0.5, 12.0).calibrate(epsilon=x, delta=1e-5, pseudocount=12.0).scale,
    "DiscreteGaussianMechanism.calibrate": lambda x: counts.DiscreteGaussianMechanism.calibrate(epsilon=x, delta=1e-5).variance,
    "composed_delta": lambda x: counts.composed_delta([(grades(20.6), 2)], x),
    "composed_epsilon": lambda x: counts.composed_epsilon([(grades(x), 2)], 1e-5),
    "certify": lambda x: design.certify(matrix(x, *ROWS[1:]), 1.0, 1e-5).exact_delta,
    "paper_rule": lambda x: design.paper_rule(rows=_rows_of(0.05), epsilon=x, delta=1e-5)[1],
    "design_matrix": lambda x: design.design_matrix(epsilon=x, delta=1e-5, n_records=9, support=SUPPORT, public_model=P).k,
    "epsilon_schedule": lambda x: design.epsilon_schedule(MarkovChain.from_matrix(P), total=x, n_steps=2).epsilons,
    "stationary_elasticity": lambda x: design.stationary_elasticity(KEY, P, x * np.ones(3), 50).error,
    "walk_of": None,
    "calibrated": None,
    "MatrixDesign": None,
}


def stacked(case):
    """The points (base, base + STEP d, base - STEP d), and d: relative changes of every number."""
    rng = np.random.default_rng(7)
    d = tuple(np.asarray(x, float) * rng.uniform(0.2, 1.0, np.shape(x)) for x in case.at)
    points = tuple(np.stack([np.asarray(x, float) + s * STEP * y for s in (0, 1, -1)]) for x, y in zip(case.at, d, strict=True))
    return points, d


def weights_of(value):
    return np.cos(np.arange(np.size(value))).reshape(np.shape(value))


def transformed(case, points):
    """(values, gradients) at the points: those of the accountants by programs that the rows share, others as one program with a scan."""

    def of(*x):
        return jnp.asarray(case.call(*x)).astype(float)

    def value_and_slopes(*x):
        value, back = jax.vjp(of, *x)
        return value, back(weights_of(value))

    draws = case.cells.get("grad") == DRAW and case.name not in ("dirichlet", "DirichletMechanism.privatize")
    one = value_and_slopes if case.cells.get("grad", DRAW) == DRAW else lambda *x: (of(*x), x)
    scanned = functools.partial(jax.lax.scan, lambda carry, x: (carry, jax.vmap(one)(*x)), 0)
    lanes = tuple(x[:, None] for x in points)
    if case.heavy:
        jax.make_jaxpr(scanned)(lanes)  # jit and scan: the trace; the values by programs that are shared
        return jax.vmap(one)(*points)
    if draws:
        jax.make_jaxpr(scanned)(lanes)  # the gradient's program is that of the two rows that run it
        scanned = functools.partial(jax.lax.scan, lambda carry, x: (carry, (jax.vmap(of)(*x), x)), 0)
    found = jax.jit(scanned)(lanes)[1]
    return jax.tree.map(lambda x: x[:, 0], found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_cell(case):
    points, d = stacked(case)
    with jax.enable_x64(True):
        values, slopes = jax.tree.map(np.asarray, transformed(case, tuple(jnp.asarray(x) for x in points)))
        whole = case.name.endswith("privatize")  # counts with a value must be whole
        claims = np.stack([np.asarray(case.call(*(x[i] for x in points)), float) for i in range(1 if whole else 3)])
        if "batch" not in case.cells and not whole:
            np.testing.assert_allclose(np.asarray(case.call(*points), float), claims, rtol=1e-11)
    size = np.abs(values).max()
    assert np.isfinite(values).all()
    assert all(np.isfinite(slope).all() for slope in slopes)
    np.testing.assert_allclose(values[: len(claims)], claims, rtol=1e-8, atol=1e-12 * size)
    if "grad" in case.cells:
        return
    change = (weights_of(values[0]) * (values[1] - values[2])).sum() / (2 * STEP)
    found = sum((slope[0] * y).sum() for slope, y in zip(slopes, d, strict=True))
    np.testing.assert_allclose(found, change, rtol=case.rtol, atol=1e-9 * size)
    assert abs(found) > 1e-4 * size  # power: something moves


@pytest.mark.parametrize("case", [c for c in CASES if c.cells.get("batch") == VMAP], ids=lambda case: case.name)
def test_a_batch_where_one_is_taken_names_vmap(case):
    points, _ = stacked(case)
    with pytest.raises(InputError, match=r"jax\.vmap"):
        case.call(*points)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_traced_value_has_the_dtype_of_what_is_traced(case):
    found = jax.eval_shape(case.call, *(jax.ShapeDtypeStruct(np.shape(x), np.float32) for x in case.at))
    assert found.dtype in (jnp.float32, jnp.int32)
    with jax.enable_x64(True):
        found = jax.eval_shape(case.call, *(jax.ShapeDtypeStruct(np.shape(x), np.float32) for x in case.at))
        follows_counts = case.name.endswith("privatize")  # which are whole numbers here, and become the default type
        assert found.dtype in (jnp.float32, jnp.int32) or follows_counts


SECOND = [
    "epsilon_floor",
    "renyi_divergence",
    "equation6",
    "expected_kl",
    "expected_kl_bound, eta",
    "least_pseudocount",
    "permute_and_flip.law",
    "exponential_mechanism.log_law",
    "stationary_law",
]
COSTLY = ["exact_delta", "exact_epsilon, 2", "omega_delta_at_corner", "PseudocountMechanism.exact_epsilon, add-remove"]


@pytest.mark.parametrize("name", [*SECOND, *(pytest.param(name, marks=pytest.mark.slow) for name in COSTLY)])
def test_second_derivatives(name):
    """Along one direction, beside central differences of first derivatives. Those of COSTLY take minutes to compile."""
    case = next(case for case in CASES if case.name == name)
    _, d = stacked(case)
    with jax.enable_x64(True):
        base = tuple(jnp.asarray(x, float) for x in case.at)

        def along(t):
            value = case.call(*(x + t * y for x, y in zip(base, d, strict=True)))
            return (weights_of(value) * value).sum()

        first, second = jax.jit(jax.vmap(lambda t: (jax.grad(along)(t), jax.grad(jax.grad(along))(t))))(
            STEP * jnp.array([0.0, 1.0, -1.0])
        )
    first, second = np.asarray(first), np.asarray(second)
    bend = (first[1] - first[2]) / (2 * STEP)
    np.testing.assert_allclose(second[0], bend, rtol=1e-5, atol=1e-8 * np.abs(first).max())
    assert abs(bend) > 1e-3 * np.abs(first).max()  # power


def test_a_batch_of_keys_is_refused_where_one_is_taken():
    keys = jax.random.split(KEY, 3)
    draws = (
        lambda key: simplex.dirichlet(key, jnp.ones(3), 2),
        lambda key: simplex.log_dirichlet(key, jnp.ones(3), 2),
        lambda key: grades(20.6).privatize(key, SHARES),
        lambda key: smoothed(0.5, 12.0).privatize(key, TABLE),
        lambda key: counts.DiscreteLaplaceMechanism(epsilon=1.0).privatize(key, TABLE),
        lambda key: counts.DiscreteGaussianMechanism(variance=2.0).privatize(key, TABLE),
        lambda key: permute_and_flip.sample(key, COSTS, 0.7),
        lambda key: exponential_mechanism.sample(key, COSTS, 0.7, shape=(4,)),
    )
    for draw in draws:
        with pytest.raises(InputError, match=r"key must be one key, but is an array of keys of shape \(3,\).*jax\.vmap"):
            draw(keys)
    loop = np.stack([np.asarray(draws[2](key)) for key in keys])
    np.testing.assert_allclose(jax.vmap(draws[2])(keys), loop, rtol=1e-6)


VALUES = [
    grades(20.6, gamma=4e-4),
    matrix(*ROWS, withheld=np.array([False, True, False])),
    matrix(*ROWS).rows,
    smoothed(0.5, 12.0, adjacency="add-remove"),
    table_rows(ROWS[0]),
    counts.DiscreteLaplaceMechanism(epsilon=0.5, postprocess="project"),
    counts.DiscreteGaussianMechanism.calibrate(epsilon=1.0, delta=1e-6),
    counts.UniformGuess(),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_mechanisms_are_pytrees_whose_structure_is_static(value):
    leaves, tree = jax.tree.flatten(value)
    assert hash(tree) == hash(jax.tree.structure(value))
    assert tree == jax.tree.structure(value)
    again = jax.tree.unflatten(tree, leaves)
    assert type(again) is type(value)
    assert jax.tree.structure(again) == tree
    for wrong in (lambda x: x is None, lambda x: None, lambda x: object(), lambda x: "k"):  # nothing is checked
        jax.tree.map(wrong, value)
    inside = jax.jit(lambda m: jax.tree.map(lambda x: 2 * x, m))(value)
    np.testing.assert_allclose(
        np.concatenate([np.ravel(x) for x in jax.tree.leaves(inside)] or [[]]),
        np.concatenate([2 * np.ravel(x) for x in leaves] or [[]]),
        rtol=1e-6,
    )


def test_one_structure_for_all_numbers_and_another_for_another_support():
    tree = jax.tree.structure
    assert tree(grades(20.6)) == tree(grades(3.0, 0.01, 400.0)) != tree(simplex.DirichletMechanism(k=20.6, **TWO))
    assert tree(matrix(*ROWS)) == tree(matrix(2 * ROWS[0], *ROWS[1:]))
    assert tree(matrix(*ROWS)) != tree(matrix(*ROWS, withheld=np.array([True, False, False])))
    assert tree(smoothed(0.5, 12.0)) != tree(smoothed(0.5, 12.0, adjacency="add-remove"))


def test_a_mechanism_is_an_argument_of_compiled_and_differentiated_functions():
    traces = []

    @jax.jit
    def epsilon(m):
        traces.append(m)
        return m.exact_epsilon(1e-5)

    for k in (20.6, 30.0, 90.0):
        np.testing.assert_allclose(epsilon(grades(k)), grades(k).exact_epsilon(1e-5), rtol=1e-6)
    assert len(traces) == 1
    slopes = jax.grad(lambda m: m.exact_epsilon(1e-5))(grades(20.6))
    difference = (grades(20.6 + 1e-4).exact_epsilon(1e-5) - grades(20.6 - 1e-4).exact_epsilon(1e-5)) / 2e-4
    assert isinstance(slopes, simplex.DirichletMechanism)
    np.testing.assert_allclose(slopes.k, difference, rtol=1e-5)
    many = jax.vmap(grades)(jnp.array([20.6, 30.0]))
    with pytest.raises(InputError, match=r"several mechanisms.*jax\.vmap"):
        many.exact_epsilon(1e-5)


def test_draws_over_a_grid_of_k_equal_a_loop():
    ks = jnp.array([5.0, 20.6, 300.0])
    found = jax.vmap(lambda k: grades(k).privatize(KEY, SHARES))(ks)
    np.testing.assert_allclose(found, [grades(float(k)).privatize(KEY, SHARES) for k in ks], rtol=2e-6)


@pytest.mark.parametrize("share", [1e-300, 1e-30, 1e-12, 0.0])
def test_gradients_of_mean_kl_are_right_at_tiny_shares_and_finite_at_zero_ones(share):
    """d/dC of C L(k C) loses all digits as a difference of terms of size 1/(k C)."""
    k = 20.6
    with jax.enable_x64(True):
        slope, second = (
            f(lambda x: simplex.expected_kl(jnp.stack([0.5 - x, jnp.float64(0.5), x]), k))(jnp.float64(share))
            for f in (jax.grad, lambda g: jax.grad(jax.grad(g)))
        )
    assert np.isfinite(slope)
    if share:
        import mpmath

        with mpmath.workdps(640):
            (x, y), psi = ((mpmath.mpf(z), k * mpmath.mpf(z)) for z in (share, "0.5")), mpmath.polygamma
            small, large = x, y
            right = [mpmath.log(v) - psi(0, v) + 1 - v * psi(1, v) for _, v in (small, large)]
            bend = 1 / small[0] - 2 * k * psi(1, small[1]) - k * small[1] * psi(2, small[1])
            bend += 2 - 2 * k * psi(1, large[1]) - k * large[1] * psi(2, large[1])
            right = right[0] - right[1]
        np.testing.assert_allclose(slope, float(right), rtol=1e-9)
        np.testing.assert_allclose(second, float(bend), rtol=1e-6)


def test_debug_checks_look_at_traced_parameters():
    calls = {
        "k must lie between 1e-9 and 1e20": (lambda k: grades(k).k, 20.6, 1e30),
        "eta must be at most 1/n": (lambda eta: grades(20.6, eta).eta, 0.073, 0.3),
        "n_records must be 1 or more": (lambda N: matrix(*ROWS[:2], N).k, 98.0, 0.5),
        "epsilon must be finite and at least 0": (lambda e: counts.least_pseudocount(epsilon=e, delta=1e-6), 1.0, -1.0),
        "delta must lie strictly between 0 and 1": (lambda d: counts.least_pseudocount(epsilon=1.0, delta=d), 1e-5, 1.5),
        "scale must lie between": (lambda s: smoothed(s, 12.0).scale, 0.5, 1e30),
        "variance must lie between": (lambda v: counts.DiscreteGaussianMechanism(variance=v).variance, 3.7, -1.0),
        "alpha must hold finite shapes": (lambda a: simplex.dirichlet(KEY, a * jnp.ones(3), 1), 1.0, -1.0),
        "C must hold shares that sum to one": (
            lambda x: grades(20.6).privatize(KEY, x * jnp.asarray(SHARES, jnp.float32)),
            1.0,
            1.5,
        ),
        "eta must be at most the smallest share": (lambda e: grades(20.6, e).privatize(KEY, SHARES), 0.073, 0.09),
        "counts must be whole numbers": (
            lambda c: smoothed(0.5, 12.0).privatize(KEY, c * jnp.asarray(TABLE, jnp.float32)),
            1.0,
            0.55,
        ),
        "P must be a transition matrix": (lambda x: design.stationary_law(x * jnp.asarray(P, jnp.float32), 300.0), 1.0, 2.0),
        "scale must be finite and not negative": (lambda s: permute_and_flip.law(COSTS, s), 0.7, -0.7),
    }
    with dpjax.debug_checks():
        for words, (call, good, bad) in calls.items():
            checked = checkify.checkify(call)
            compiled = jax.jit(checked)
            assert words in (compiled(jnp.float32(bad))[0].get() or "")
            assert compiled(jnp.float32(good))[0].get() is None


VALUES_AND_WORDS = {
    "CountMechanism", "ExactSampler", "Neighbours", "NoiseMechanism", "NoiseSampler", "Options", "Parameter", "PersonBound", "Planning",
    "PublicRows", "Target", "exact_sampler", "mechanism", "names", "register", "unregister",
}  # fmt: skip


def test_every_public_name_has_a_row_or_runs_on_the_host():
    rows = {part for case in CASES for part in case.name.partition(",")[0].split(".")} | {name.partition(".")[0] for name in HOST}
    for package in ("simplex", "counts", "design"):
        known = {
            name: getattr(importlib.import_module(f"dpjax.{package}"), name)
            for name in importlib.import_module(f"dpjax.{package}").__all__
        }
        missing = {name for name in known if name not in rows | VALUES_AND_WORDS}
        assert missing == set(), package


@pytest.mark.parametrize("name", [name for name, call in HOST.items() if call is not None])
def test_what_runs_on_the_host_says_so_first_and_refuses_a_trace(name):
    head, _, method = name.partition(".")
    owner = next(getattr(package, head) for package in (simplex, counts, design) if hasattr(package, head))
    assert inspect.getdoc(getattr(owner, method) if method else owner).startswith("On the host: ")
    with pytest.raises(InputError, match="is traced, and this function runs on the host"):
        jax.eval_shape(HOST[name], jax.ShapeDtypeStruct((), np.float32))
