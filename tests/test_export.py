"""Hot public functions are lowered for CUDA and TPU here, where there is neither: no callback to the host, no float64, no larger program.

The inputs are float32 and whole numbers, with x64 off. Accountants compute in float64 all the same (docs, "Derivatives"); no other function
does. SIZES are the characters of each program's text as measured with JAX 0.10.2, the longer of the two platforms; a program may grow by
MARGIN, for another version of JAX, and no more.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import dpjax
from dpjax import counts, design, exponential_mechanism, permute_and_flip, simplex
from dpjax.chains import MarkovChain, deviation_matrix, gth, mixing_time, simulate
from dpjax.trajectory import RandomisedResponse, TrajectoryMechanism, joint_stationary
from dpjax.trajectory.batch import TrajectoryState

MARGIN = 1.25
ACCOUNTANTS = ("exact_delta", "exact_epsilon", "gradient of exact epsilon")
N = 43
FLOAT, WHOLE = np.float32, np.int32
CHAIN = MarkovChain.from_matrix(np.random.default_rng(0).dirichlet(np.ones(N), N))
MECHANISM = TrajectoryMechanism(CHAIN, epsilon=1.0, rho=1.0)
CACHE = MECHANISM.cache()  # the laws of all states, an argument of the program and no part of it
START = np.eye(N, dtype=FLOAT)[0]
GRADES = {"eta": 0.073, "n_records": 98, "n_categories": 5}


def f(*shape):
    return jax.ShapeDtypeStruct(shape, FLOAT)


def i(*shape):
    return jax.ShapeDtypeStruct(shape, WHOLE)


KEY = jax.ShapeDtypeStruct((2,), np.uint32)


def keyed(function):
    """`function(key, ...)` of the words of a key."""
    return lambda words, *rest: function(jax.random.wrap_key_data(words), *rest)


def on(P, epsilon):
    return TrajectoryMechanism(MarkovChain.from_matrix(P), epsilon=epsilon, rho=1.0)


def shapes(tree):
    """What stands for the leaves of a pytree: floats are float32."""
    leaves = map(np.asarray, jax.tree.leaves(tree))
    return [jax.ShapeDtypeStruct(leaf.shape, FLOAT if leaf.dtype.kind == "f" else leaf.dtype) for leaf in leaves]


def like(tree, leaves):
    return jax.tree.unflatten(jax.tree.structure(tree), leaves)


def users(words, cache, private, time, s):
    return MECHANISM.step(jax.random.wrap_key_data(words), TrajectoryState(private, time), s, cache=like(CACHE, cache))


HOT = {
    "dirichlet": (keyed(lambda key, a: simplex.dirichlet(key, a, 1000)), KEY, f(67)),
    "DirichletMechanism.privatize": (
        keyed(lambda key, k, C: simplex.DirichletMechanism(k=k, **GRADES).privatize(key, C)),
        KEY,
        f(),
        f(1000, 5),
    ),
    "PseudocountMechanism.privatize": (
        keyed(lambda key, s, C: counts.PseudocountMechanism(scale=s, pseudocount=0.5).privatize(key, C)),
        KEY,
        f(),
        f(67, 67),
    ),
    "DiscreteLaplaceMechanism.privatize": (keyed(counts.DiscreteLaplaceMechanism(epsilon=1.0).privatize), KEY, i(67, 67)),
    "DiscreteGaussianMechanism.privatize": (
        keyed(counts.DiscreteGaussianMechanism.calibrate(epsilon=1.0, delta=1e-6).privatize),
        KEY,
        i(67, 67),
    ),
    "exact_delta": (lambda e, k: simplex.exact_delta(e, k=k, **GRADES), f(), f()),
    "exact_epsilon": (lambda d, k: simplex.exact_epsilon(d, k=k, **GRADES), f(), f()),
    "expected_kl": (dpjax.expected_kl, f(5), f()),
    "permute_and_flip.sample": (keyed(permute_and_flip.sample), KEY, f(1000, N), f()),
    "permute_and_flip.law": (permute_and_flip.law, f(1000, N), f()),
    "exponential_mechanism.sample": (keyed(exponential_mechanism.sample), KEY, f(1000, N), f()),
    "exponential_mechanism.law": (exponential_mechanism.law, f(1000, N), f()),
    "shortest_paths": (dpjax.shortest_paths, f(N, N)),
    "distances_to": (lambda P, s: dpjax.distances_to(P, s), f(N, N), i(8)),
    "most_likely_path": (dpjax.most_likely_path, f(N, N), i(), i()),
    "stationary_distribution": (dpjax.stationary_distribution, f(1000, 67, 67)),
    "gth, few states": (gth, f(20_000, 8, 8)),
    "entropy_rate": (dpjax.entropy_rate, f(67, 67)),
    "ergodicity_coefficient": (dpjax.ergodicity_coefficient, f(67, 67)),
    "deviation_matrix": (deviation_matrix, f(67, 67)),
    "mixing_time": (mixing_time, f(67, 67)),
    "simulate": (keyed(lambda key, P: simulate(key, P, 100)), KEY, f(N, N)),
    "online step of 10,000 users": (users, KEY, shapes(CACHE), i(10_000), i(10_000), i(10_000)),
    "TrajectoryMechanism.privatize": (
        keyed(lambda key, m, w: like(MECHANISM, m).privatize(key, w)),
        KEY,
        shapes(MECHANISM),
        i(101),
    ),
    "RandomisedResponse.privatize": (keyed(RandomisedResponse(CHAIN, epsilon=1.0).privatize), KEY, i(101)),
    "exact_law": (lambda P, e, w: dpjax.exact_law(on(P, e), w, START).marginals, f(N, N), f(), i(21)),
    "exceedance": (lambda P, e, w: dpjax.exact_law(on(P, e), w, START).exceedance(1.0), f(N, N), f(), i(21)),
    "joint_stationary": (lambda P, e: joint_stationary(on(P, e)).law, f(11, 11), f()),
    "design.stationary_law": (lambda P, k: design.stationary_law(P, k), f(11, 11), f(11)),
    "gradient of the stationary law": (jax.grad(lambda P: dpjax.stationary_distribution(P)[0]), f(67, 67)),
    "gradient of the distances": (jax.grad(lambda P: dpjax.shortest_paths(P).sum()), f(N, N)),
    "gradient of exact epsilon": (jax.grad(lambda k: simplex.exact_epsilon(1e-5, k=k, **GRADES)), f()),
    "gradient of a Dirichlet draw": (keyed(jax.grad(lambda key, a: simplex.dirichlet(key, a, 10)[0, 0], argnums=1)), KEY, f(5)),
}
SIZES = {
    "dirichlet": 137323,
    "DirichletMechanism.privatize": 152503,
    "PseudocountMechanism.privatize": 148212,
    "DiscreteLaplaceMechanism.privatize": 45345,
    "DiscreteGaussianMechanism.privatize": 55484,
    "exact_delta": 169810,
    "exact_epsilon": 172656,
    "expected_kl": 21034,
    "permute_and_flip.sample": 21388,
    "permute_and_flip.law": 13016,
    "exponential_mechanism.sample": 21559,
    "exponential_mechanism.law": 6769,
    "shortest_paths": 56505,
    "distances_to": 57448,
    "most_likely_path": 77198,
    "stationary_distribution": 84936,
    "gth, few states": 76916,
    "entropy_rate": 79961,
    "ergodicity_coefficient": 8188,
    "deviation_matrix": 99023,
    "mixing_time": 87240,
    "simulate": 100561,
    "online step of 10,000 users": 62394,
    "TrajectoryMechanism.privatize": 258190,
    "RandomisedResponse.privatize": 49638,
    "exact_law": 120584,
    "exceedance": 127205,
    "joint_stationary": 87153,
    "design.stationary_law": 65463,
    "gradient of the stationary law": 101621,
    "gradient of the distances": 81688,
    "gradient of exact epsilon": 582612,
    "gradient of a Dirichlet draw": 174535,
}


def program(exported):
    """The program's text without its source locations, which depend on the checkout and name test functions."""
    lines = (line for line in exported.mlir_module().splitlines() if not line.startswith("#loc"))
    return re.sub(r" loc\([^()]*\)", "", "\n".join(lines))


def check(exported, size, wide=False):
    text = program(exported)
    assert "callback" not in text
    assert not re.findall(r"custom_call @([\w.]+)", text)  # none, of Python or not
    assert wide or not re.search(r"\bf64\b|xf64>", text)
    assert not any(out.dtype == np.float64 for out in exported.out_avals)
    assert len(text) <= MARGIN * size


@pytest.mark.parametrize("name", HOT)
def test_a_hot_function_is_lowered_for_accelerators(name):
    function, *arguments = HOT[name]
    jitted = jax.jit(function)  # traced once for both
    for platform in ("cuda", "tpu"):
        check(export.export(jitted, platforms=(platform,))(*arguments), SIZES[name], wide=name in ACCOUNTANTS)


def test_the_checks_see_a_callback_and_a_float64_and_a_large_program():
    def ask(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), FLOAT), x)

    with pytest.raises((AssertionError, NotImplementedError)):  # JAX itself refuses it
        check(export.export(jax.jit(ask), platforms=("cpu",))(f()), 10**6)
    with jax.enable_x64(True), pytest.raises(AssertionError):
        check(export.export(jax.jit(lambda x: x.astype(jnp.float64)), platforms=("cuda",))(f()), 10**6)
    small = export.export(jax.jit(jnp.sin), platforms=("tpu",))(f())
    check(small, len(program(small)))
    with pytest.raises(AssertionError):
        check(small, len(program(small)) / 2)
