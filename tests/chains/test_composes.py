"""Every public function of chains and paths under jit, vmap, grad, scan and with a batch axis, or the documented reason why not.

A case takes a stack of two arguments. One compiled program gives its values by vmap and by scan, and its derivatives; they are compared with
concrete calls and with central differences. `CASES` and `HOST` are plain, so that a table over the library can be made of them.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import dpjax
from dpjax import chains, paths
from dpjax._errors import InputError
from dpjax.chains import MarkovChain
from dpjax.chains.simulate import TransitionTable
from dpjax.paths.distances import length_matrix
from tests.composing import BY_VMAP, STEP, Case, everything, moved

WHOLE = "its values are whole numbers or states, without a derivative"
P = np.array(
    [
        [[0.1, 0.4, 0.2, 0.3], [0.35, 0.05, 0.45, 0.15], [0.27, 0.13, 0.38, 0.22], [0.19, 0.31, 0.17, 0.33]],
        [[0.4, 0.35, 0.05, 0.2], [0.06, 0.24, 0.44, 0.26], [0.52, 0.08, 0.11, 0.29], [0.03, 0.37, 0.42, 0.18]],
    ]
)
RINGS = np.array(
    [
        [[0.0, 0.7, 0.3, 0], [0, 0.2, 0.5, 0.3], [0.45, 0, 0, 0.55], [0.25, 0.75, 0, 0]],
        [[0.0, 0.6, 0.4, 0], [0, 0.3, 0.1, 0.6], [0.35, 0, 0, 0.65], [0.85, 0.15, 0, 0]],
    ]
)
SPARSE = MarkovChain.from_matrix(sparse.csr_array(RINGS[0]), labels=list("abcd"))
ENTRIES = RINGS[:, RINGS[0] > 0]
LAWS = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.3, 0.2]])
STATES = np.array([[3, 1], [0, 2]], np.int32)


def with_entries(data):
    """The sparse chain with these numbers: as a transformation returns it where they are traced, else made on the host."""
    if isinstance(data, jax.Array) or data.ndim > 1:
        return jax.tree.unflatten(jax.tree.structure(SPARSE), [jnp.asarray(data)])
    places = SPARSE.matrix.indices, SPARSE.matrix.indptr
    return MarkovChain.from_matrix(sparse.csr_array((data, *places), shape=(4, 4)), labels=list("abcd"))


def dense(lengths):
    return length_matrix(lengths) if sparse.issparse(lengths) else lengths


def padded(path):
    return np.array(path + [-1] * (4 - len(path))) if isinstance(path, list) else path


def from_matrix(P):
    return MarkovChain.from_matrix(P, labels=list("abcd"))


CASES = [
    Case("MarkovChain.from_matrix", lambda P: from_matrix(P).matrix, (P,), {"batch": BY_VMAP}),
    Case("MarkovChain.stationary_distribution", lambda P: from_matrix(P).stationary_distribution(), (P,), {"batch": BY_VMAP}),
    Case("MarkovChain.entropy_rate", lambda P: from_matrix(P).entropy_rate(), (P,), {"batch": BY_VMAP}),
    Case(
        "MarkovChain.initial_distribution",
        lambda law: MarkovChain.from_matrix(RINGS[0], initial=law).initial_distribution,
        (LAWS,),
        {"batch": BY_VMAP},
    ),
    Case("a sparse chain's stationary law", lambda data: with_entries(data).stationary_distribution(), (ENTRIES,)),
    Case("a sparse chain's distances", lambda data: dpjax.shortest_paths(with_entries(data)), (ENTRIES,)),
    Case("a sparse chain's table", lambda data: chains.transition_table(with_entries(data))[0], (ENTRIES,), {"batch": BY_VMAP}),
    Case("stationary_distribution", dpjax.stationary_distribution, (P,)),
    Case("gth", lambda P: chains.gth(jnp.asarray(P)), (P,)),
    Case("entropy_rate", dpjax.entropy_rate, (P,)),
    Case("row_entropies", chains.row_entropies, (P,)),
    Case("ergodicity_coefficient, inf", dpjax.ergodicity_coefficient, (P,)),
    Case("ergodicity_coefficient, 1", functools.partial(dpjax.ergodicity_coefficient, norm="1"), (P,)),
    Case("deviation_matrix", chains.deviation_matrix, (P,)),
    Case("tau1", chains.tau1, (P,)),
    Case("second_eigenvalue_modulus", chains.second_eigenvalue_modulus, (P,), orders=1),
    Case("spectral_gap", chains.spectral_gap, (P,), orders=1),
    Case("mixing_time", chains.mixing_time, (P, np.array([0.01, 1e-5])), {"grad": WHOLE, "batch": BY_VMAP}),
    Case("row_slopes", chains.row_slopes, (P, P[::-1])),
    Case("elasticities", chains.elasticities, (P, P[::-1])),
    Case("transition_table", lambda P: chains.transition_table(P)[0], (P,), {"batch": BY_VMAP}),
    Case(
        "cumulative_start",
        lambda law: chains.cumulative_start(law, chains.transition_table(P[0])),
        (LAWS,),
        {"batch": BY_VMAP},
    ),
    Case(
        "simulate",
        lambda P, law: chains.simulate(jax.random.key(7), P, 5, initial=law),
        (P, LAWS),
        {"grad": WHOLE, "batch": BY_VMAP},
    ),
    Case(
        "walk",
        lambda sums, start: chains.walk(jax.random.key(7), TransitionTable(jnp.asarray(sums), None), jnp.asarray(start), 5),
        (np.cumsum(P, axis=2), np.cumsum(LAWS, axis=1)),
        {"grad": WHOLE, "batch": BY_VMAP},
    ),
    Case("edge_lengths", lambda P: dense(paths.edge_lengths(P)), (RINGS,), {"batch": BY_VMAP}),
    Case("shortest_paths", dpjax.shortest_paths, (RINGS,)),
    Case("shortest_paths, cycles", functools.partial(dpjax.shortest_paths, diagonal="cycle"), (RINGS,)),
    Case("distances_to, traced chain", lambda P: dpjax.distances_to(P, [2, 0]), (P,), {"batch": BY_VMAP}),
    Case(
        "distances_to, traced states",
        lambda targets: dpjax.distances_to(SPARSE, targets),
        (STATES,),
        {"grad": "it has no real argument", "batch": BY_VMAP},
    ),
    Case(
        "most_likely_path",
        lambda P, i, j: padded(dpjax.most_likely_path(P, i, j)),
        (RINGS, STATES[:, 0], STATES[:, 1]),
        {"grad": WHOLE, "batch": BY_VMAP},
    ),
]
HOST = {  # documented in the first line: they look at a pattern of zeros, or at Python objects; None: no argument can be traced
    "communicating_classes": chains.communicating_classes,
    "closed_classes": chains.closed_classes,
    "transient_states": chains.transient_states,
    "is_irreducible": chains.is_irreducible,
    "largest_class": chains.largest_class,
    "largest_class_of_counts": chains.largest_class_of_counts,
    "period": chains.period,
    "unreachable_pair": paths.unreachable_pair,
    "choose_method": None,
    "MarkovChain.from_counts": MarkovChain.from_counts,
    "MarkovChain.from_trajectories": None,
    "MarkovChain.from_pairs": None,
    "MarkovChain.is_irreducible": lambda P: from_matrix(P).is_irreducible(),
    "MarkovChain.require_irreducible": lambda P: from_matrix(P).require_irreducible(),
    "MarkovChain.closed_class": lambda P: from_matrix(P).closed_class(),
    "MarkovChain.largest_class": lambda P: from_matrix(P).largest_class(),
    "MarkovChain.support": lambda P: from_matrix(P).support(),
    "MarkovChain.host_matrix": lambda P: from_matrix(P).host_matrix(),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_values_and_derivatives_are_those_of_concrete_calls_and_of_differences(case):
    program, rng = everything(case), np.random.default_rng(0)
    directions = tuple(rng.normal(size=part.shape) * (part > 0) for part in case.stack)
    with jax.enable_x64(True):
        expected = np.stack([case.call(*(part[k] for part in case.stack)) for k in range(2)])
        by_vmap, by_scan, _, moves = jax.tree.map(np.asarray, program(case.stack, directions))
        np.testing.assert_allclose(by_vmap, expected, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(by_scan, expected, rtol=1e-13, atol=1e-15)
        assert by_vmap.dtype in (np.float64, np.int32)
        if "grad" in case.reasons:
            return
        (_, _, up, more), (_, _, down, less) = (
            jax.tree.map(np.asarray, program(moved(case.stack, directions, s * STEP), directions)) for s in (1, -1)
        )
    slope = sum(np.sum(g * d, axis=tuple(range(1, d.ndim))) for g, d in zip(moves[0], directions, strict=True))
    difference = (up - down) / (2 * STEP)
    assert np.abs(difference).min() > 1e-3
    np.testing.assert_allclose(slope, difference, rtol=1e-6)
    if case.orders == 2:
        for bend, one, other in zip(moves[1], more[0], less[0], strict=True):
            np.testing.assert_allclose(bend, (one - other) / (2 * STEP), rtol=1e-5, atol=1e-6 * max(1, np.abs(bend).max()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_batch_axis_is_taken_or_refused_by_an_error_that_names_vmap(case):
    if "batch" not in case.reasons:
        with jax.enable_x64(True):
            expected = np.stack([case.call(*(part[k] for part in case.stack)) for k in range(2)])
            np.testing.assert_allclose(case.call(*case.stack), expected, rtol=1e-13, atol=1e-15)
            np.testing.assert_allclose(jax.jit(case.call)(*case.stack), expected, rtol=1e-13, atol=1e-15)
        return
    for call in (case.call, functools.partial(jax.eval_shape, case.call)):
        with pytest.raises(InputError, match=r"jax\.vmap"):
            call(*case.stack)


@pytest.mark.parametrize("name", HOST)
def test_a_host_function_says_so_in_its_first_line_and_in_its_error(name):
    found = functools.reduce(getattr, name.split("."), chains if hasattr(chains, name.split(".")[0]) else paths)
    assert found.__doc__.startswith("On the host: ")
    if HOST[name] is not None:
        with pytest.raises(InputError, match="host"):
            jax.eval_shape(HOST[name], P[0])


def test_the_lists_name_every_public_function():
    named = {word.strip(",") for case in CASES for word in case.name.split()} | set(HOST)
    assert set(chains.__all__) - {"MarkovChain"} <= named
    assert set(paths.__all__) <= named
    methods = {f"MarkovChain.{name}" for name in vars(MarkovChain) if not name.startswith(("_", "tree_"))}
    plain = {"matrix", "labels", "counts", "initial", "n_states", "is_sparse", "on_host", "dense", "index"}  # no computation
    assert methods - {f"MarkovChain.{name}" for name in plain} <= named
