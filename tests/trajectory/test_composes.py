"""Every public function of trajectories under jit, vmap, grad, scan and with a batch axis, or the documented reason why not.

A case takes a stack of two arguments. One compiled program gives its values by vmap and by scan, and its derivatives; they are compared with
concrete calls and with central differences. `CASES` and `HOST` are plain, so that a table over the library can be made of them.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from dpjax import trajectory
from dpjax._errors import InputError
from dpjax.chains import MarkovChain
from dpjax.trajectory import (
    Adjacency,
    ChenMechanism,
    HammingAdjacency,
    OfflineMechanism,
    RandomisedResponse,
    TrajectoryMechanism,
    adjacency_epsilon,
    agreement,
    empirical_entropy,
    exact_law,
    exact_scale,
    feasible,
    information_content,
    joint_law,
    joint_stationary,
    kappa,
    make,
    match_substitution,
    pairwise_losses,
    path_errors,
    protection,
    running_maximum,
    substitution_epsilon,
    trajectory_loss,
    visit_divergence,
    visit_frequencies,
)
from dpjax.trajectory.batch import TrajectoryState

WHOLE = "its values are states or counts, without a derivative"
BY_VMAP = "one at a time; the error names jax.vmap"
STEP = 1e-5
P = np.array(
    [
        [[0.5, 0.3, 0.2], [0.25, 0.35, 0.4], [0.37, 0.03, 0.6]],
        [[0.1, 0.65, 0.25], [0.44, 0.26, 0.3], [0.12, 0.5, 0.38]],
    ]
)
CHAIN = MarkovChain.from_matrix(np.array([[0, 0.7, 0.3, 0], [0, 0.2, 0.5, 0.3], [0.45, 0, 0, 0.55], [0.25, 0.75, 0, 0]]))
WORD, OTHER = np.array([0, 1, 3, 1, 2]), np.array([0, 1, 1, 1, 3])
WORDS = np.array([[0, 1, 3, 1, 2, 0], [2, 3, 1, 1, 2, 3]], np.int32)
EPSILON, RHO, WEIGHT = np.array([1.3, 2.1]), np.array([0.9, 1.4]), np.array([0.3, 0.6])
LAWS = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.3, 0.2]])
DISTANCES = np.random.default_rng(1).random((2, 4, 4)) + 0.5
LEVELS = np.array([0.31, 1.23])  # no distance of any chain here lies within a step of them
KEYS = np.array([[1, 2], [3, 4]], np.uint32)
STATES, TIMES, TARGETS = np.array([3, 1], np.int32), np.array([4, 17], np.int32), np.array([0, 2], np.int32)


@dataclasses.dataclass(frozen=True)
class Case:
    """`call` of one element of `stack`; `reasons` says why a cell is not "yes", `orders` how often it differentiates."""

    name: str
    call: Callable[..., Any]
    stack: tuple[Any, ...]
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    orders: int = 2


def one(epsilon=1.0, rho=1.0, prior_weight=0.0, chain=CHAIN, selection="permute-and-flip"):
    return TrajectoryMechanism(chain, epsilon=epsilon, rho=rho, prior_weight=prior_weight, selection=selection)


def on(P, epsilon=1.0, **options):
    return one(epsilon, chain=MarkovChain.from_matrix(P), **options)


def joined(*parts):
    """One vector of all of them, NumPy where all are concrete."""
    library = jnp if any(isinstance(part, jax.Array) for part in parts) else np
    return library.concatenate([library.reshape(library.asarray(part), (-1,)) for part in parts])


def known(law):
    """All numbers of the law of one trajectory."""
    more = [law.variance_entropy] if hasattr(law, "variance_entropy") and np.ndim(law.expected_entropy) == 0 else []
    return joined(law.marginals, law.expected_error, law.expected_entropy, *more, law.exceedance(LEVELS), law.step_exceedance(0.31))


def reported(law):
    """The same of reports, whose entropy is infinite on this chain."""
    return joined(law.marginals, law.expected_error, law.exceedance(LEVELS), law.step_exceedance(0.31), law.impossible)


def joint(law):
    return joined(law.sensitive_marginals, law.marginals, law.expected_error, law.expected_entropy, law.exceedance(LEVELS), law.end)


def key_of(data):
    return jax.random.wrap_key_data(jnp.asarray(data))


def step_of(m, data, private, time, s):
    return m.step(key_of(data), TrajectoryState(jnp.asarray(private), jnp.asarray(time)), s, cache=m.cache())[1]


M, OFFLINE = one(prior_weight=0.2), OfflineMechanism(CHAIN, epsilon=1.0, rho=1.0, base_weight=0.5)
CHEN, REPORTS = ChenMechanism(CHAIN, epsilon=1.0), RandomisedResponse(CHAIN, epsilon=1.0)
DRAWN = {"grad": WHOLE, "batch": BY_VMAP}

CASES = [
    Case("exact_law, parameters", lambda *x: known(exact_law(one(*x), WORD)), (EPSILON, RHO, WEIGHT), {"batch": BY_VMAP}),
    Case(
        "exact_law, traced chain",
        lambda P, e: known(exact_law(on(P, e, prior_weight=0.3, selection="exponential"), [0, 2, 1], 0)),
        (P, EPSILON),
        {"batch": BY_VMAP},
    ),
    Case("exact_law, trajectory", lambda w: known(exact_law(M, w)), (WORDS,), DRAWN),
    Case("exact_law, start", lambda p: known(exact_law(M, WORD, p)), (LAWS,), {"batch": BY_VMAP}, orders=1),
    Case(
        "exact_law, OfflineMechanism",
        lambda e, rho, b: known(exact_law(OfflineMechanism(CHAIN, epsilon=e, rho=rho, base_weight=b), WORD)),
        (EPSILON, RHO, WEIGHT),
        {"batch": BY_VMAP},
    ),
    Case(
        "exact_law, ChenMechanism",
        lambda e: known(exact_law(ChenMechanism(CHAIN, epsilon=e, b=2), WORD)),
        (EPSILON,),
        {"batch": BY_VMAP},
    ),
    Case(
        "exact_law, RandomisedResponse",
        lambda e: reported(exact_law(RandomisedResponse(CHAIN, epsilon=e), WORD)),
        (EPSILON,),
        {"batch": BY_VMAP},
    ),
    Case("joint_law", lambda *x: joint(joint_law(one(*x), 3)), (EPSILON, RHO, WEIGHT), {"batch": BY_VMAP}),
    Case(
        "joint_stationary",
        lambda P, e: joined(
            *(lambda x: (x.law, x.expected_error, x.expected_length, x.exceedance(LEVELS)))(joint_stationary(on(P, e)))
        ),
        (P, EPSILON),
        {"batch": BY_VMAP},
        orders=1,
    ),
    Case("pairwise_losses", lambda *x: pairwise_losses(one(*x)), (EPSILON, RHO, WEIGHT), {"batch": BY_VMAP}, orders=1),
    Case("substitution_epsilon", lambda P: substitution_epsilon(on(P)), (P,), {"batch": BY_VMAP}, orders=1),
    Case("kappa", lambda e, d: kappa(one(e), d), (EPSILON, DISTANCES), {"batch": BY_VMAP}, orders=1),
    Case("trajectory_loss", lambda e, p: trajectory_loss(one(e), WORD, OTHER, p), (EPSILON, LAWS), {"batch": BY_VMAP}, orders=1),
    Case(
        "bounds: loss_bounds, substitution_bound, guarantee, under_hamming",
        lambda P, e: joined(
            on(P, e).loss_bounds(),
            on(P, e).substitution_bound(),
            *on(P, e).guarantee()[:2],
            TrajectoryMechanism.under_hamming(MarkovChain.from_matrix(P), epsilon=e, b=2).scale,
        ),
        (P, EPSILON),
        {"batch": BY_VMAP},
        orders=1,
    ),
    Case("privatize", lambda k, w: M.privatize(key_of(k), w, check=False), (KEYS, WORDS), DRAWN),
    Case("privatize, parameters", lambda e, k: one(e).privatize(key_of(k), WORD), (EPSILON, KEYS), DRAWN),
    Case("privatize, traced chain", lambda P, k: on(P).privatize(key_of(k), [0, 2, 1, 1]), (P, KEYS), DRAWN),
    Case("sample", lambda k, w: M.sample(key_of(k), w, 3, check=False), (KEYS, WORDS), DRAWN),
    Case("sample, OfflineMechanism", lambda k, w: OFFLINE.sample(key_of(k), w, 3, check=False), (KEYS, WORDS), DRAWN),
    Case("privatize, ChenMechanism", lambda k, w: CHEN.privatize(key_of(k), w, check=False), (KEYS, WORDS), DRAWN),
    Case("sample, RandomisedResponse", lambda k, w: REPORTS.sample(key_of(k), w, 3), (KEYS, WORDS), DRAWN),
    Case("init", lambda k: M.init(key_of(k))[1], (KEYS,), {"grad": WHOLE}),
    Case("step and cache", functools.partial(step_of, M), (KEYS, STATES, TIMES, TARGETS), {"grad": WHOLE}),
    Case("step and cache, parameters", lambda e, *x: step_of(one(e), *x), (EPSILON, KEYS, STATES, TIMES, TARGETS), DRAWN),
    Case(
        "path_errors and running_maximum",
        lambda G: running_maximum(path_errors(G, WORD)),
        (DISTANCES.repeat(2, axis=1)[:, :5],),
        {"batch": BY_VMAP},
    ),
    Case(
        "information_content, empirical_entropy, feasible, agreement, visit_frequencies",
        lambda w: jnp.stack(
            [f(CHAIN_NEIGHBOURS, w).astype(jnp.float32) for f in (information_content, empirical_entropy, feasible)]
            + [agreement(WORDS[1], w), visit_frequencies(w, 4)[..., 1]],
            axis=-1,
        ),
        (WORDS,),
        {"grad": WHOLE},
    ),
    Case("visit_divergence", visit_divergence, (LAWS, LAWS[::-1, ::-1])),
]
CHAIN_NEIGHBOURS = M.graph.neighbours
HOST = {  # documented in the first line; None: no argument can be traced
    "exact_scale": lambda e: exact_scale(one(e)),
    "match_substitution": lambda e: match_substitution(one(e), 1.0).epsilon,
    "adjacency_epsilon": lambda e: adjacency_epsilon(one(e)),
    "protection": lambda e: protection(one(e)).g_min,
    "make": lambda e: make(CHAIN, "mechanism1", epsilon=e).mechanism.epsilon,
    "kinds": None,
    "register": None,
}


def weighed(value):
    """One number of all of them, without a symmetry."""
    return jnp.sum(jnp.cos(jnp.arange(value.size, dtype=value.dtype)).reshape(value.shape) * value)


def everything(case):
    """The values by vmap and by scan; the gradient, and its derivative along a direction, in all real arguments."""
    real = tuple(k for k, part in enumerate(case.stack) if part.dtype.kind == "f")

    def number(*arguments):
        return weighed(case.call(*arguments))

    def moving(arguments, directions):
        gradient = jax.grad(number, argnums=real)
        return gradient(*arguments) if case.orders < 2 else jax.jvp(gradient, arguments, directions)

    @jax.jit
    def program(stack, directions):
        by_vmap = jax.vmap(case.call)(*stack)
        by_scan = jax.lax.scan(lambda carry, arguments: (carry, case.call(*arguments)), None, stack)[1]
        if "grad" in case.reasons:
            return by_vmap, by_scan, None, None
        found = jax.vmap(moving)(stack, directions)
        return by_vmap, by_scan, jax.vmap(number)(*stack), found if case.orders == 2 else (found, None)

    return program


def moved(stack, directions, step):
    return tuple(part + step * d for part, d in zip(stack, directions, strict=True))


def singly(case):
    return np.stack([np.asarray(case.call(*(part[k] for part in case.stack))) for k in range(2)])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_values_and_derivatives_are_those_of_concrete_calls_and_of_differences(case):
    program, rng = everything(case), np.random.default_rng(0)
    directions = tuple(rng.normal(size=part.shape) for part in case.stack)
    with jax.enable_x64(True):
        expected = singly(case)
        by_vmap, by_scan, _, moves = jax.tree.map(np.asarray, program(case.stack, directions))
        np.testing.assert_allclose(by_vmap, expected, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(by_scan, expected, rtol=1e-11, atol=1e-13)
        if "grad" in case.reasons:
            return
        (_, _, up, more), (_, _, down, less) = (
            jax.tree.map(np.asarray, program(moved(case.stack, directions, s * STEP), directions)) for s in (1, -1)
        )
    slope = sum(np.sum(g * d, axis=tuple(range(1, d.ndim))) for g, d in zip(moves[0], directions, strict=True))
    difference = (up - down) / (2 * STEP)
    assert np.abs(difference).min() > 1e-4
    np.testing.assert_allclose(slope, difference, rtol=1e-6)
    if case.orders == 2:
        for bend, above, below in zip(moves[1], more[0], less[0], strict=True):
            np.testing.assert_allclose(bend, (above - below) / (2 * STEP), rtol=1e-5, atol=1e-6 * max(1, np.abs(bend).max()))


@pytest.fixture
def as_a_user_has_it():
    """Without the check of annotations, which tests alone have."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("as_a_user_has_it")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_batch_axis_is_taken_or_refused_by_an_error_that_names_vmap(case):
    if "batch" not in case.reasons:
        with jax.enable_x64(True):
            np.testing.assert_allclose(case.call(*case.stack), singly(case), rtol=1e-13)
        return
    for call in (case.call, functools.partial(jax.eval_shape, case.call)):
        with pytest.raises(InputError, match=r"jax\.vmap"):
            call(*case.stack)


@pytest.mark.parametrize("name", HOST)
def test_a_host_function_says_so_in_its_first_line_and_in_its_error(name):
    if HOST[name] is not None:
        assert getattr(trajectory, name).__doc__.startswith("On the host: ")
        with pytest.raises(InputError, match="host"):
            jax.eval_shape(HOST[name], 1.0)


def test_the_lists_name_every_public_function():
    named = {word.strip(",:") for case in CASES for word in case.name.split()} | set(HOST)
    functions = {name for name in trajectory.__all__ if not isinstance(getattr(trajectory, name), type)}
    assert functions <= named
    methods = {"init", "step", "cache", "privatize", "sample", "exact_law", "loss_bounds", "substitution_bound", "guarantee"}
    assert methods <= named


@pytest.mark.parametrize(
    "value", [M, OFFLINE, CHEN, REPORTS, Adjacency(rho=2.0), HammingAdjacency(b=2)], ids=lambda x: type(x).__name__
)
def test_a_mechanism_is_a_pytree_of_its_numbers_and_its_chain(value):
    leaves, structure = jax.tree.flatten(value)
    again = jax.tree.unflatten(structure, leaves)
    assert type(again) is type(value)
    assert jax.tree.structure(again) == structure
    numbers = [getattr(value, name) for name in ("epsilon", "rho", "b", "prior_weight", "base_weight") if hasattr(value, name)]
    assert all(any(leaf is number for leaf in leaves) for number in numbers)
    assert not any(isinstance(leaf, str) for leaf in leaves)
    assert jax.tree.structure(jax.tree.map(lambda _: None, value)) is not None  # rebuilding checks nothing
