"""What a trace must not hide: faults of values that no check of the host has seen."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import dpjax
from dpjax._errors import InputError
from dpjax._tracing import positive
from dpjax.chains import MarkovChain
from dpjax.paths import distances_to, most_likely_path
from dpjax.trajectory import (
    ChenMechanism,
    OfflineMechanism,
    RandomisedResponse,
    TrajectoryMechanism,
    exact_law,
    joint_law,
    joint_stationary,
    protection,
    substitution_epsilon,
)
from dpjax.trajectory import steps as steps_module
from dpjax.trajectory.graph import require_epsilon, require_parameter

P = np.array([[0.5, 0.3, 0.2], [0.25, 0.35, 0.4], [0.37, 0.03, 0.6]])
CHAIN = MarkovChain.from_matrix(P)
M = TrajectoryMechanism(CHAIN, epsilon=1.0, rho=6.0)
KEY, WORD = jax.random.key(3), np.array([0, 0, 1, 2, 1])


@pytest.mark.parametrize("start", [None, 2, P[0]])
def test_a_concrete_draw_is_the_same_within_another_trace(start):
    expected = M.privatize(KEY, WORD, start)
    within = jax.jit(lambda x: x + M.privatize(KEY, WORD, start))(0)
    scanned = jax.lax.scan(lambda x, _: (x, x + M.privatize(KEY, WORD, start)), 0, None, length=1)[1][0]
    with dpjax.debug_checks():
        error, checked = jax.jit(checkify.checkify(lambda x: x + M.privatize(KEY, WORD, start)))(0)
    error.throw()
    for found in (within, scanned, checked):
        np.testing.assert_array_equal(found, expected)


MECHANISMS = [
    M,
    ChenMechanism(CHAIN, epsilon=1.0, b=2),
    RandomisedResponse(CHAIN, epsilon=1.0),
    OfflineMechanism(CHAIN, epsilon=1.0, rho=2.0),
]


def with_epsilon(m, epsilon):
    """The mechanism rebuilt from its leaves, another number in the place of epsilon."""
    paths, structure = jax.tree_util.tree_flatten_with_path(m)
    return jax.tree.unflatten(structure, [epsilon if "epsilon" in jax.tree_util.keystr(path) else leaf for path, leaf in paths])


@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: m.name)
@pytest.mark.parametrize("epsilon", [-1.0, np.nan, np.inf])
def test_a_mechanism_rebuilt_from_bad_leaves_claims_and_draws_nothing(m, epsilon):
    calls = [
        lambda m: m.privatize(KEY, WORD),
        lambda m: m.sample(KEY, WORD, 2),
        lambda m: m.guarantee(),
        lambda m: m.substitution_loss(),
        lambda m: m.loss_bounds(),
        lambda m: m.metric_rate(),
        protection,
        lambda m: exact_law(m, WORD),
    ]
    if hasattr(m, "init"):
        calls += [lambda m: m.init(KEY), substitution_epsilon, lambda m: m.cache(), lambda m: m.scale]
    else:
        calls += [lambda m: m.adjacency.words and m.graph]
    for call in calls:
        with pytest.raises(InputError, match=r"^epsilon is"):
            call(with_epsilon(m, epsilon))
    assert with_epsilon(m, 2.0).guarantee().substitution > m.guarantee().substitution


def test_every_parameter_of_a_rebuilt_mechanism_is_checked_again():
    for m, name in ((MECHANISMS[1], "b"), (M, "rho"), (M, "prior_weight"), (MECHANISMS[3], "base_weight")):
        paths, structure = jax.tree_util.tree_flatten_with_path(m)
        bad = [-2 if jax.tree_util.keystr(path) == f".{name}" else leaf for path, leaf in paths]
        with pytest.raises(InputError, match=rf"^{name} is -2"):
            jax.tree.unflatten(structure, bad).privatize(KEY, WORD)


def test_a_traced_cache_of_another_mechanism_gives_no_state():
    state, _ = M.init(KEY)
    step = jax.jit(lambda cache: M.step(KEY, state, 1, cache))
    own = int(step(M.cache())[1])
    assert own == int(M.step(KEY, state, 1)[1])
    for other in (TrajectoryMechanism(CHAIN, epsilon=100.0, rho=6.0), MECHANISMS[1]):
        after, private = step(other.cache())
        assert int(private) == -1
        assert int(M.step(KEY, after, 1)[1]) == -1  # concrete, from then on
    with dpjax.debug_checks():
        error, _ = jax.jit(checkify.checkify(lambda cache: M.step(KEY, state, 1, cache)[1]))(MECHANISMS[1].cache())
    assert "cache must be that of this mechanism" in error.get()


def test_a_state_that_is_none_stays_none_or_is_refused():
    state, _ = M.init(KEY)
    lost, wrong = state._replace(private=jnp.int32(-1)), state._replace(private=jnp.int32(99))
    after, private = M.step(KEY, lost, 1)
    assert int(private) == int(M.step(KEY, after, 2)[1]) == -1
    assert int(after.time) == 1
    assert int(jax.jit(M.step)(KEY, wrong, 1, M.cache())[1]) == -1
    for bad in (wrong, (1, 2), 3, None):
        with pytest.raises(InputError, match=r"^state "):
            M.step(KEY, bad, 1)
    with pytest.raises(InputError, match=r"^state holds"):
        M.step(KEY, M.init(KEY, shape=(2,))[0]._replace(private=jnp.array([0, 3])), 1)


@pytest.mark.parametrize("s", [np.int64(2**32 + 1), np.uint64(2**32 + 1), np.int64(-(2**32) + 1), np.int8(-1), np.int32(3)])
def test_no_index_wraps_into_a_state(s):
    with jax.enable_x64(True):
        step, far = (
            jax.jit(lambda s, cache: M.step(KEY, M.init(KEY)[0], s, cache)[1]),
            jax.jit(lambda s: distances_to(CHAIN, s[None])),
        )
        assert int(step(s, M.cache())) == -1
        assert np.isnan(far(s)).all()
        assert np.isfinite(far(s.dtype.type(1))).all()
        assert int(jax.jit(lambda s: most_likely_path(CHAIN, s, 1)[0])(s)) == -1


@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: m.name)
def test_a_traced_trajectory_with_no_state_gives_none_and_nan(m):
    draw = jax.jit(
        lambda w: (m.privatize(KEY, w), m.sample(KEY, w, 2), exact_law(m, w).expected_error, exact_law(m, w).exceedance(0.1))
    )
    good = draw(WORD)
    assert (np.asarray(good[0]) >= 0).all()
    assert np.isfinite(good[2]).all()
    for bad in (-1, 9):
        private, several, error, tail = draw(np.array([0, 1, 2, 1, bad]))
        assert int(private[-1]) == -1
        assert (np.asarray(several)[:, -1] == -1).all()
        assert np.isnan(error[-1])
        assert np.isnan(tail)
        assert (np.asarray(draw(np.array([0, bad, 2, 1, 1]))[0])[1 : 2 if m.name == "randomised-response" else None] == -1).all()


@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: m.name)
def test_a_traced_parameter_that_is_none_gives_no_plausible_number(m):
    def everything(epsilon):
        found = dataclasses.replace(m, epsilon=epsilon)
        law = exact_law(found, WORD)
        losses = [] if m.name == "offline" else [found.substitution_loss(), found.substitution_bound()]
        numbers = [law.expected_error[1:], law.exceedance(0.1), *losses]
        return jnp.concatenate([jnp.ravel(x) for x in numbers]), found.privatize(KEY, WORD)[1:]

    run = jax.jit(everything)
    assert np.isfinite(run(1.0)[0]).all()
    for bad in (jnp.nan, -1.0):
        numbers, states = run(bad)
        assert np.isnan(numbers).all()
        assert (np.asarray(states) == -1).all()


def test_a_traced_matrix_with_nan_gives_nan():
    def everything(P):
        chain = MarkovChain.from_matrix(P)
        law = exact_law(ChenMechanism(chain, epsilon=1.0), WORD, 0)
        return chain.entropy_rate(), distances_to(chain, [1])[0, 0], law.expected_error[1], law.marginals[1, 0]

    run = jax.jit(everything)
    assert np.isfinite(run(P)).all()
    for place in ((0, 0), (0, 1)):
        bad = P.copy()
        bad[place] = np.nan
        found = np.asarray(run(bad))
        assert np.isnan(found[[0, 2, 3]]).all()
        assert np.isnan(found[1]) == (place == (0, 1))  # no way to another state passes the loop


def test_a_number_of_numpy_or_jax_counts_trajectories():
    expected = np.asarray(M.sample(KEY, WORD, 2))
    for m in MECHANISMS:
        for n in (np.int64(2), np.int32(2), jnp.array(2)):
            assert m.sample(KEY, WORD, n, first=np.int64(0)).shape == expected.shape
    np.testing.assert_array_equal(M.sample(KEY, WORD, jnp.array(2)), expected)


def test_shapes_and_keys_are_refused_by_name():
    state, _ = M.init(KEY, shape=5)
    assert state.private.shape == (5,)
    calls = {
        "s": lambda: M.step(KEY, state, np.array([0, 1, 2, 1])),
        "shape": lambda: M.init(KEY, shape=(-1,)),
        "epsilon": lambda: require_epsilon(KEY),
        "rho": lambda: require_parameter(KEY, "rho", "give a number", "be positive", positive),
        "trajectory": lambda: M.privatize(KEY, "abc"),
    }
    for name, call in calls.items():
        with pytest.raises(InputError, match=rf"^{name} "):
            call()


def test_a_concrete_law_takes_traced_thresholds():
    levels = np.array([0.0, 0.31, 1.23, 40.0])
    laws = [exact_law(M, WORD), exact_law(MECHANISMS[2], WORD), joint_law(M, 3), joint_stationary(M)]
    tails = [law.exceedance for law in laws] + [law.step_exceedance for law in laws[:3]]
    with jax.enable_x64(True):
        found = jax.jit(lambda v: [tail(v) for tail in tails])(levels)
        for tail, one in zip(tails, found, strict=True):
            np.testing.assert_allclose(one, tail(levels), rtol=1e-13)
        single = jax.jit(jax.vmap(lambda v: jnp.stack([tail(v) for tail in tails[:4]])))(levels)
        np.testing.assert_allclose(single.T, np.stack(found[:4]), rtol=1e-13)
        assert jax.grad(lambda v: laws[0].exceedance(v))(0.31) == 0
        assert np.isnan(jax.jit(laws[2].exceedance)(np.nan))
    with pytest.raises(InputError, match=r"^v has the shape"):
        jax.jit(laws[0].exceedance)(np.zeros((2, 2)))


def test_a_traced_trajectory_on_a_large_chain_is_an_error_with_a_remedy(monkeypatch):
    monkeypatch.setattr(steps_module, "WHOLE", 5)
    m = TrajectoryMechanism(CHAIN, epsilon=1.5, rho=6.0)
    with pytest.raises(
        InputError, match=r"^trajectory is traced .*Scan m\.init and m\.step over it, with cache=m\.cache\(targets\)"
    ):
        jax.jit(lambda word: m.privatize(KEY, word))(WORD)
    cache, (state, first) = m.cache([0, 1, 2]), m.init(KEY)
    _, rest = jax.jit(lambda word: jax.lax.scan(lambda at, s: m.step(KEY, at, s, cache), state, word))(WORD[1:])
    assert [int(first), *np.asarray(rest).tolist()] == np.asarray(m.privatize(KEY, WORD)).tolist()
