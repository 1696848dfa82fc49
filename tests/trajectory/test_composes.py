"""Every public function of trajectories under jit, vmap, grad, scan and with a batch axis, or the documented reason why not.

A case takes a stack of two arguments. One compiled program gives its values by vmap and by scan, and its derivatives; they are compared with
concrete calls and with central differences. `CASES` and `HOST` are plain, so that a table over the library can be made of them.
"""

import functools

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
import scipy.stats
from jax.experimental import checkify

import dpjax
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
from dpjax.trajectory import steps as steps_module
from dpjax.trajectory.batch import TrajectoryState
from dpjax.trajectory.kernel import reached, split, split_on_host
from dpjax.trajectory.protocol import unregister
from tests.composing import BY_VMAP, STEP, Case, everything, moved
from tests.toy_trajectory import HopMechanism

unregister("hops")  # the import registered it

WHOLE = "its values are states or counts, without a derivative"
P = np.array(
    [
        [[0.5, 0.3, 0.2], [0.25, 0.35, 0.4], [0.37, 0.03, 0.6]],
        [[0.1, 0.65, 0.25], [0.44, 0.26, 0.3], [0.12, 0.5, 0.38]],
    ]
)
CHAIN = MarkovChain.from_matrix(np.array([[0, 0.7, 0.3, 0], [0, 0.2, 0.5, 0.3], [0.45, 0, 0, 0.55], [0.25, 0.75, 0, 0]]))
WORD = np.array([0, 1, 3, 1, 2])
WORDS = np.array([[0, 1, 3, 1, 2, 0], [2, 3, 1, 1, 2, 3]], np.int32)
EPSILON, RHO, WEIGHT = np.array([1.3, 2.1]), np.array([0.9, 1.4]), np.array([0.3, 0.6])
LAWS = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.3, 0.2]])
DISTANCES = np.random.default_rng(1).random((2, 4, 4)) + 0.5
LEVELS = np.array([0.31, 1.23])  # no distance of any chain here lies within a step of them
STARTS = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
KEYS = np.array([[1, 2], [3, 4]], np.uint32)
STATES, TIMES, TARGETS = np.array([3, 1], np.int32), np.array([4, 17], np.int32), np.array([0, 2], np.int32)


def one(epsilon=1.0, rho=1.0, prior_weight=0.0, chain=CHAIN, selection="permute-and-flip"):
    return TrajectoryMechanism(chain, epsilon=epsilon, rho=rho, prior_weight=prior_weight, selection=selection)


def chain_of(P):
    return MarkovChain.from_matrix(P)


def on(P, epsilon=1.0, **options):
    return one(epsilon, chain=chain_of(P), **options)


def joined(*parts):
    """One vector of all of them, NumPy where all are concrete."""
    library = jnp if any(isinstance(part, jax.Array) for part in parts) else np
    return library.concatenate([library.reshape(library.asarray(part), (-1,)) for part in parts])


def known(law):
    """All numbers of the law of one trajectory."""
    more = [law.variance_entropy] if hasattr(law, "variance_entropy") and np.ndim(law.expected_entropy) == 0 else []
    return joined(law.marginals, law.expected_error, law.expected_entropy, *more, law.exceedance(LEVELS), law.step_exceedance(0.31))


def reported(law):
    """The same of reports."""
    return joined(
        law.marginals, law.expected_error, law.expected_entropy, law.exceedance(LEVELS), law.step_exceedance(0.31), law.impossible
    )


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
    Case("exact_law, start", lambda p: known(exact_law(M, WORD, p)), (LAWS,), {"batch": BY_VMAP}),
    Case(
        "exact_law, OfflineMechanism",
        lambda P, e, b, p: known(exact_law(OfflineMechanism(chain_of(P), epsilon=e, rho=1.2, base_weight=b), [0, 2, 1], p)),
        (P, EPSILON, WEIGHT, STARTS),
        {"batch": BY_VMAP},
    ),
    Case(
        "exact_law, ChenMechanism",
        lambda P, e: known(exact_law(ChenMechanism(chain_of(P), epsilon=e, b=2), [0, 2, 1])),
        (P, EPSILON),
        {"batch": BY_VMAP},
    ),
    Case(
        "exact_law, RandomisedResponse",
        lambda P, e: reported(exact_law(RandomisedResponse(chain_of(P), epsilon=e), [0, 2, 1])),
        (P, EPSILON),
        {"batch": BY_VMAP},
    ),
    Case(
        "joint_law",
        lambda P, e, p, q: joint(joint_law(on(P, e, prior_weight=0.3), 3, start=p, sensitive=q)),
        (P, EPSILON, STARTS, STARTS[::-1]),
        {"batch": BY_VMAP},
    ),
    Case(
        "joint_stationary",
        lambda P, e: joined(
            *(lambda x: (x.law, x.expected_error, x.expected_length, x.exceedance(LEVELS)))(joint_stationary(on(P, e)))
        ),
        (P, EPSILON),
        {"batch": BY_VMAP},
        orders=1,
    ),
    Case("pairwise_losses", lambda *x: pairwise_losses(one(*x)), (EPSILON, RHO, WEIGHT), {"batch": BY_VMAP}),
    Case("substitution_epsilon", lambda P: substitution_epsilon(on(P)), (P,), {"batch": BY_VMAP}, orders=1),
    Case("kappa", lambda e, d: kappa(one(e), d), (EPSILON, DISTANCES), {"batch": BY_VMAP}, orders=1),
    Case("trajectory_loss", lambda P, e: trajectory_loss(on(P, e), [0, 1, 2], [0, 2, 2]), (P, EPSILON), {"batch": BY_VMAP}),
    Case("trajectory_loss, trajectories", lambda w, v: trajectory_loss(M, w, v, 0), (WORDS, WORDS[::-1]), DRAWN),
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


# streams


def scanned(m, key, start, word, cache=None):
    """s'_0 and the private states of a stream, a fresh key a step."""
    state, first = m.init(jax.random.fold_in(key, 0), start)

    def move(state, at):
        t, s = at
        return m.step(jax.random.fold_in(key, t), state, s, cache=cache)

    _, rest = jax.lax.scan(move, state, (jnp.arange(1, len(word), dtype=jnp.int32), word[1:]))
    return jnp.concatenate([first[None], rest])


def looped(m, key, start, word):
    state, private = m.init(jax.random.fold_in(key, 0), start)
    path = [int(private)]
    for t, s in enumerate(word[1:], 1):
        state, private = m.step(jax.random.fold_in(key, t), state, int(s))
        path.append(int(private))
    return path


LONG = np.random.default_rng(0).integers(0, 4, 40).astype(np.int32)
KEY = jax.random.key(20261201)


@pytest.mark.parametrize("m", [M, CHEN], ids=["mechanism 1", "Chen"])
@pytest.mark.parametrize("start", [None, 2, [0.5, 0.0, 0.25, 0.25]])
def test_a_scan_over_a_stream_is_the_loop_over_it(m, start):
    run = jax.jit(lambda key, word, cache: scanned(m, key, start, word, cache))
    path = np.asarray(run(KEY, LONG, m.cache())).tolist()
    assert path == looped(m, KEY, start, LONG)
    assert len(set(path)) > 2
    with jax.enable_x64(True):  # the same with float64
        assert (
            np.asarray(jax.jit(lambda key, word, cache: scanned(m, key, start, word, cache))(KEY, LONG, m.cache())).tolist() == path
        )


def test_a_traced_start_is_the_concrete_one():
    first = jax.jit(lambda start: jax.vmap(lambda k: M.init(k, start)[1])(jax.random.split(KEY, 50)))
    for start in (3, np.float32([0.5, 0.0, 0.25, 0.25])):
        one_by_one = [int(M.init(k, start)[1]) for k in jax.random.split(KEY, 50)]
        assert np.asarray(first(jnp.asarray(start))).tolist() == one_by_one


USERS = 60


def users(count=USERS):
    rng = np.random.default_rng(3)
    private = jnp.asarray(rng.integers(0, 4, count), jnp.int32)
    time = jnp.asarray(rng.integers(0, 40, count), jnp.int32)
    return TrajectoryState(private, time), jnp.asarray(rng.integers(0, 4, count), jnp.int32)


def at(tree, i):
    return jax.tree.map(lambda x: x[i], tree)


def test_a_vmap_over_users_is_the_loop_over_them_and_one_key_serves_a_tick():
    states, s = users()
    keys = jax.vmap(jax.random.fold_in, (None, 0))(KEY, jnp.arange(USERS))
    loop = [int(M.step(keys[i], at(states, i), int(s[i]))[1]) for i in range(USERS)]
    mapped, private = jax.jit(jax.vmap(M.step, (0, 0, 0, None)))(keys, states, s, M.cache())
    assert np.asarray(private).tolist() == loop == np.asarray(M.step(keys, states, s)[1]).tolist()
    assert np.asarray(mapped.time).tolist() == (np.asarray(states.time) + 1).tolist()
    for call in (M.step, jax.jit(M.step)):
        assert np.asarray(call(KEY, states, s, M.cache([0, 1, 2, 3]))[1]).tolist() == loop
    with jax.enable_x64(True):
        assert np.asarray(jax.jit(M.step)(KEY, states, s)[1]).tolist() == loop
    keyed = np.asarray(M.init(KEY, shape=(USERS,))[1])
    assert keyed.tolist() == np.asarray(jax.vmap(M.init)(keys)[1]).tolist() == [int(M.init(k)[1]) for k in keys]


@pytest.mark.parametrize("m", [M, OFFLINE, CHEN, REPORTS], ids=lambda m: m.name)
def test_a_key_alone_that_is_traced_gives_the_same_draws_without_float64(m):
    keys = jax.random.split(KEY, 40)
    paths = np.asarray(jax.jit(jax.vmap(lambda key: m.privatize(key, WORD)))(keys))
    assert paths.tolist() == [np.asarray(m.privatize(key, WORD)).tolist() for key in keys]
    assert (
        np.asarray(jax.jit(lambda key, first: m.sample(key, WORD, 5, first=first))(KEY, 7)).tolist()
        == m.sample(KEY, WORD, 5, first=7).tolist()
    )
    assert "f64" not in str(jax.make_jaxpr(lambda key: m.privatize(key, WORD))(KEY))


def test_a_table_of_the_targets_in_use():
    states, s = users()
    kept = M.cache([3, 1, 1])
    inside = np.isin(np.asarray(s), [1, 3])
    private = np.asarray(jax.jit(M.step)(KEY, states, s, kept)[1])
    assert (private[inside] == np.asarray(M.step(KEY, states, s)[1])[inside]).all()
    assert (private[~inside] == -1).all()
    after, _ = jax.jit(M.step)(KEY, states, s, kept)
    assert (np.asarray(jax.jit(M.step)(KEY, after, jnp.ones_like(s), kept)[1])[~inside] == -1).all()  # and from then on
    with pytest.raises(InputError, match=r"^s 0 .*|^s .*m\.cache\(targets\)"):
        M.step(KEY, at(states, 0), 0, kept)
    assert int(M.step(KEY, at(states, 0), 3, kept)[1]) == int(M.step(KEY, at(states, 0), 3)[1])


def test_a_cache_of_another_mechanism_or_chain_is_refused():
    state, _ = M.init(KEY)
    for other in (one(prior_weight=0.21), CHEN, one(prior_weight=0.2, chain=MarkovChain.from_matrix(np.full((4, 4), 0.25)))):
        with pytest.raises(InputError, match=r"^cache belongs to another mechanism"):
            M.step(KEY, state, 1, other.cache())
    with pytest.raises(InputError, match=r"^cache belongs to another chain"):
        jax.jit(M.step)(KEY, state, 1, on(P[0]).cache())
    with pytest.raises(InputError, match=r"^targets is 4"):
        M.cache([0, 4])
    with pytest.raises(InputError, match=r"^s is -1"):
        M.step(KEY, *users()[:1], np.array([-1] * USERS))


def test_where_all_laws_are_too_many_a_traced_state_asks_for_a_cache(monkeypatch):
    monkeypatch.setattr(steps_module, "WHOLE", 10)
    m = one(1.5)
    state, _ = m.init(KEY)
    with pytest.raises(InputError, match=r"^s is traced or an array.*cache=m\.cache\(targets\)"):
        jax.jit(m.step)(KEY, state, 1)
    assert int(jax.jit(m.step)(KEY, state, 1, m.cache([1]))[1]) == int(m.step(KEY, state, 1)[1])


@pytest.mark.statistical
def test_draws_of_many_users_follow_the_exact_law_and_not_a_wrong_one():
    """Chi-square at each of 4 steps; an honest sampler fails one in a million times. The wrong law is 15 per cent off in epsilon."""
    draws, failure = 50_000, 1e-6
    m = one(2.0)
    run = jax.jit(jax.vmap(lambda key: scanned(m, key, 0, jnp.asarray(WORD, jnp.int32), m.cache())))
    paths = np.asarray(run(jax.random.split(KEY, draws)))
    observed = [np.bincount(paths[:, t], minlength=4) for t in range(1, 5)]

    def p_values(law):
        kept = law.marginals[1:] > 0
        assert all((seen[~positive] == 0).all() for seen, positive in zip(observed, kept, strict=True))
        return [
            scipy.stats.chisquare(seen[positive], expected[positive] * draws).pvalue
            for seen, expected, positive in zip(observed, law.marginals[1:], kept, strict=True)
        ]

    assert min(p_values(exact_law(m, WORD, 0))) > failure / 4
    assert min(p_values(exact_law(one(2.3), WORD, 0))) < failure / 4
    assert min(p_values(exact_law(one(1.7), WORD, 0))) < failure / 4


def test_two_words_are_compared_as_the_numbers_they_are():
    rng = np.random.default_rng(5)
    grid = rng.integers(0, 2**53, 500).astype(np.float64) * 2.0**-53
    law = np.concatenate([[0.0, 1.0, 2.0**-60, 2.0**-53, 1 - 2.0**-53, 1e-300, 2.0**-32, 0.5], grid, rng.random(500) * 1e-9])
    uniforms = np.concatenate([law[(law < 1) & (law * 2**53 == np.floor(law * 2**53))], [0.0, 1 - 2.0**-53]])
    numbers = (uniforms * 2.0**53).astype(np.uint64) << np.uint64(11)
    words = tuple(jnp.asarray(x.astype(np.uint32))[None] for x in (numbers >> np.uint64(32), numbers & np.uint64(2**32 - 1)))
    with jax.enable_x64(True):
        tables = split_on_host(law), jax.jit(split)(law)
        for table in tables:
            column = tuple(jnp.asarray(word)[:, None] for word in table)
            assert (np.asarray(reached(column, slice(None), words)) == (law[:, None] <= uniforms[None])).all()
    assert (np.asarray(split(jnp.asarray(law, jnp.float32))[0])[law == 1.0] == 2**32 - 1).all()


@pytest.mark.usefixtures("as_a_user_has_it")
def test_a_tick_compiles_for_accelerators_without_float64_or_a_callback():
    states, s = users(10_000)
    tick = jax.jit(M.step)
    assert "f64" not in str(jax.make_jaxpr(M.step)(KEY, states, s, M.cache()))
    for platform in ("cuda", "tpu"):
        text = jax.export.export(tick, platforms=[platform])(KEY, states, s, M.cache()).mlir_module()
        lines = [line.partition(" loc(")[0] for line in text.splitlines() if not line.startswith("#loc")]
        assert not any("f64" in line or "callback" in line for line in lines)
        assert 100 < len(lines) < 900


# parameters


def test_an_array_without_axes_is_a_number():
    assert TrajectoryMechanism(CHAIN, epsilon=jnp.float32(1), rho=np.array(2)).scale == 0.25
    assert ChenMechanism(CHAIN, epsilon=jnp.float32(1), b=jnp.int32(2)).scale == 0.5
    assert OfflineMechanism(CHAIN, epsilon=jnp.float32(1), rho=1.0, base_weight=jnp.float32(1)).base_weight == 1.0
    assert RandomisedResponse(CHAIN, epsilon=jnp.float32(1)).each == 1.0
    again = jax.tree.map(jnp.asarray, one(2.0))  # as a transformation returns it
    np.testing.assert_allclose(exact_law(again, WORD).expected_error, exact_law(one(2.0), WORD).expected_error, rtol=1e-6)
    with pytest.raises(InputError, match="epsilon is"):
        one(jnp.float32(-1))


def test_a_grid_over_parameters_is_traced_once():
    traces = []

    def draw(epsilon, rho, key):
        traces.append(epsilon)
        m = one(epsilon, rho)
        return m.privatize(key, WORD), exact_law(m, WORD).expected_error.sum()

    run = jax.jit(jax.vmap(draw, (0, None, None)))
    for seed in range(3):
        epsilons, rho = jnp.float32([0.5, 1.0, 4.0]) + seed, 1.0 + seed
        drawn, error = run(epsilons, rho, KEY)
    assert len(traces) == 1
    single = [one(float(e), rho) for e in epsilons]
    assert np.asarray(drawn).tolist() == [np.asarray(m.privatize(KEY, WORD)).tolist() for m in single]
    np.testing.assert_allclose(error, [exact_law(m, WORD).expected_error.sum() for m in single], rtol=1e-5)


def test_a_mechanism_is_an_argument_and_carries_a_gradient():
    def loss(m):
        return exact_law(m, WORD).expected_error.sum()

    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(loss))(one(1.3, 0.9))
        by_epsilon = jax.grad(lambda e: loss(one(e, 0.9)))(1.3)
    assert isinstance(slope, TrajectoryMechanism)
    np.testing.assert_allclose(slope.epsilon, by_epsilon, rtol=1e-12)
    assert np.asarray(slope.chain.matrix).shape == (4, 4)
    drawn = jax.jit(lambda m, key: m.privatize(key, WORD))(one(2.0), KEY)
    assert np.asarray(drawn).tolist() == np.asarray(one(2.0).privatize(KEY, WORD)).tolist()


def test_a_mechanism_of_a_users_own_composes():
    def error(epsilon):
        return exact_law(HopMechanism(CHAIN, epsilon=epsilon), WORD).expected_error.sum()

    m, h = HopMechanism(CHAIN, epsilon=2.0, changed=2), 1e-5
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(error))(1.5)
        np.testing.assert_allclose(slope, (error(1.5 + h) - error(1.5 - h)) / (2 * h), rtol=1e-6)
        epsilons = np.array([0.5, 4.0])
        drawn = jax.jit(jax.vmap(lambda e: HopMechanism(CHAIN, epsilon=e).privatize(KEY, WORD)))(epsilons)
    assert np.asarray(drawn).tolist() == [
        np.asarray(HopMechanism(CHAIN, epsilon=float(e)).privatize(KEY, WORD)).tolist() for e in epsilons
    ]
    assert np.asarray(jax.jit(lambda key, word: scanned(m, key, 1, word))(KEY, LONG)).tolist() == looped(m, KEY, 1, LONG)


@pytest.mark.parametrize(
    ("call", "value", "message"),
    [
        (lambda e: one(e).scale, -1.0, "epsilon must be finite and 0 or more, got -1.0"),
        (lambda rho: one(1.0, rho).scale, 0.0, "rho must be positive and finite, got 0.0"),
        (lambda w: one(1.0, 1.0, w).scale + w, np.inf, "prior_weight must be finite and 0 or more, got inf"),
        (lambda e: RandomisedResponse(CHAIN, epsilon=e).keep, 0.0, "epsilon must be positive and finite, got 0.0"),
        (lambda b: ChenMechanism(CHAIN, epsilon=1.0, b=b).scale, 0, "b must be a whole number, 1 or more, got 0"),
        (lambda s: M.step(KEY, M.init(KEY)[0], s, M.cache())[1], 4, "s must be the index of a state, 0 to 3"),
        (lambda s: exact_law(M, jnp.stack([s, s, s])).expected_error, 7, "trajectory must hold state indices, 0 to 3"),
    ],
)
def test_checks_of_traced_values_run_under_debug_checks_alone(call, value, message):
    jax.jit(call)(value)  # no check
    with dpjax.debug_checks():
        error, _ = jax.jit(checkify.checkify(call))(value)
    assert message in error.get()
