"""The exact law: reference values, enumeration of Algorithm 1, limits, derivatives, transformations, bad input."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpjax.selection import exponential_mechanism, permute_and_flip

REFERENCE = [
    ([0.0, 0.5, 1.3, 4.0], 0.7, [0.52867111591186749, 0.29936377089116715, 0.15134427198119300, 0.020620841215772364]),
    ([0.0, 0.0, 1.0, 2.5], 0.4, [0.34751649912728694, 0.34751649912728694, 0.20289026835007923, 0.10207673339534690]),
    ([0.0, 2.0], 1.0, [0.93233235838169365, 0.067667641618306346]),
]
MECHANISMS = [permute_and_flip, exponential_mechanism]


def law_by_enumeration(costs, scale):
    """Algorithm 1 over every order: a candidate is chosen if its coin accepts and those before it in the order did not."""
    best = min(costs)
    coins = [math.exp(scale * (best - d)) if d < math.inf else 0.0 for d in costs]
    total = np.zeros(len(costs))
    for order in itertools.permutations(range(len(costs))):
        refused = 1.0
        for r in order:
            total[r] += refused * coins[r]
            refused *= 1 - coins[r]
    return total / math.factorial(len(costs))


@pytest.mark.parametrize(("costs", "scale", "wanted"), REFERENCE)
def test_reference_values(costs, scale, wanted):
    np.testing.assert_allclose(permute_and_flip.law(costs, scale), wanted, rtol=1e-13)


def test_reference_value_of_a_kernel_row():
    # G(., 2) of P3 = [[.92,.05,.03],[.04,.91,.05],[.01,.09,.90]]
    costs = [3.5065578973199817, 2.9957322735539910, 0.0]
    wanted = [0.080147568134764837, 0.10534842663131046, 0.81450400523392471]
    np.testing.assert_allclose(permute_and_flip.law(costs, 0.5), wanted, rtol=1e-13)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 1.0, 10.0]), st.booleans(), st.booleans())
def test_the_law_is_algorithm_1_enumerated(m, seed, scale, ties, infinite):
    rng = np.random.default_rng(seed)
    costs = rng.integers(0, 4, m).astype(float) if ties else rng.exponential(2.0, m)
    if infinite and m > 1:
        costs[rng.integers(m)] = np.inf
    np.testing.assert_allclose(permute_and_flip.law(costs, scale), law_by_enumeration(costs, scale), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("mechanism", MECHANISMS)
class TestLaws:
    def test_sums_to_one_for_hundreds_of_candidates(self, mechanism):
        costs = np.random.default_rng(0).exponential(3.0, (5, 393))
        np.testing.assert_allclose(mechanism.law(costs, 0.8).sum(axis=-1), 1, rtol=1e-13)

    def test_follows_the_dtype_of_jax_arrays_and_is_float64_on_the_host(self, mechanism):
        costs = np.array([0.0, 1.0, 3.0])
        host = mechanism.law(costs, 1)
        assert isinstance(host, np.ndarray)
        assert host.dtype == np.float64
        device = mechanism.law(jnp.asarray(costs, jnp.float32), 1)
        assert isinstance(device, jax.Array)
        assert device.dtype == jnp.float32
        np.testing.assert_allclose(device, host, rtol=1e-6)

    def test_float32_keeps_relative_accuracy_for_393_candidates(self, mechanism):
        costs = np.random.default_rng(1).exponential(4.0, 393).astype(np.float32)
        np.testing.assert_allclose(mechanism.law(jnp.asarray(costs), 1.0), mechanism.law(costs, 1.0), rtol=3e-5)

    def test_scale_zero_is_uniform_over_the_mask_and_infinite_costs_stay_out(self, mechanism):
        where = np.array([True, True, False, True, True])
        law = mechanism.law([0.0, 7.0, 1.0, np.inf, 2.0], 0.0, where)
        np.testing.assert_allclose(law, [1 / 3, 1 / 3, 0, 0, 1 / 3], rtol=1e-14)

    @pytest.mark.parametrize("scale", [1e3, 1e30, 1e300])
    def test_a_very_large_scale_is_uniform_over_the_best(self, mechanism, scale):
        np.testing.assert_allclose(mechanism.law([2.0, 1.0, 1.0, 1e10, np.inf], scale), [0, 0.5, 0.5, 0, 0], rtol=1e-14)

    def test_one_candidate_is_certain(self, mechanism):
        assert mechanism.law([3.0], 2.0).tolist() == [1.0]
        assert mechanism.law([3.0, 1.0], 2.0, [True, False]).tolist() == [1.0, 0.0]

    def test_a_mask_is_the_same_as_leaving_out(self, mechanism):
        costs, where = np.array([0.3, 0.0, 2.0, 1.0]), np.array([True, False, True, True])
        np.testing.assert_allclose(mechanism.law(costs, 1.5, where)[where], mechanism.law(costs[where], 1.5), rtol=1e-14)

    def test_log_law_is_right_where_the_law_underflows(self, mechanism):
        costs = np.array([0.0, 1.0, 2000.0, np.inf])
        law, log_law = mechanism.law(costs, 1.0), mechanism.log_law(costs, 1.0)
        np.testing.assert_allclose(log_law[:2], np.log(law[:2]), rtol=1e-14)
        assert law[2] == 0
        # a hopeless candidate's integral is the chance that no other accepts before it
        others = np.exp(-costs[:2])
        miss = 1 - others.sum() / 2 + others.prod() / 3
        wanted = math.log(miss) if mechanism is permute_and_flip else -math.log(others.sum())
        np.testing.assert_allclose(log_law[2], wanted - 2000, rtol=1e-14)
        assert log_law[3] == -np.inf

    def test_gradient_in_costs_and_scale_against_central_differences(self, mechanism):
        costs, weights, h = np.array([0.0, 0.4, 0.4, 2.0, np.inf]), np.array([1.0, -2.0, 0.5, 3.0, 1.0]), 1e-6
        with jax.enable_x64(True):

            def value(costs, scale):
                return jnp.sum(weights * mechanism.law(costs, scale))

            by_costs, by_scale = jax.grad(value, argnums=(0, 1))(jnp.asarray(costs), jnp.asarray(0.7))
            steps = [float(value(costs + h * e, 0.7) - value(costs - h * e, 0.7)) / (2 * h) for e in np.eye(5)[:4]]
            step = float(value(costs, 0.7 + h) - value(costs, 0.7 - h)) / (2 * h)
        np.testing.assert_allclose(np.asarray(by_costs)[:4], steps, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(by_scale, step, rtol=1e-8)
        assert np.asarray(by_costs)[4] == 0

    def test_gradient_is_finite_at_a_tie_of_the_best_and_at_scale_zero(self, mechanism):
        with jax.enable_x64(True):
            for costs, scale in (([1.0, 1.0, 2.0], 1.0), ([0.0, 1.0, 2.0], 0.0)):
                slope = jax.jacobian(mechanism.law)(jnp.asarray(costs), scale)
                h = 1e-6
                for r, e in enumerate(np.eye(3)):
                    upper, lower = (mechanism.law(np.asarray(costs) + sign * h * e, scale) for sign in (1, -1))
                    np.testing.assert_allclose(slope[:, r], (upper - lower) / (2 * h), atol=1e-5)

    def test_jit_vmap_and_batches_agree_and_the_scale_does_not_recompile(self, mechanism):
        costs = jnp.asarray(np.random.default_rng(2).exponential(2.0, (4, 7)), jnp.float32)
        where = jnp.asarray(np.arange(7) != 3)
        traces = []

        @jax.jit
        def law(costs, scale):
            traces.append(1)
            return mechanism.law(costs, scale, where)

        scales = jnp.asarray([0.1, 1.0, 2.0, 5.0], jnp.float32)
        batch = mechanism.law(costs, scales, where)
        np.testing.assert_allclose(jnp.stack([law(c, s) for c, s in zip(costs, scales, strict=True)]), batch, rtol=1e-6)
        np.testing.assert_allclose(jax.vmap(lambda c, s: mechanism.law(c, s, where))(costs, scales), batch, rtol=1e-6)
        assert len(traces) == 1

    def test_the_log_ratio_of_two_laws_is_within_scale_times_the_range_of_the_difference(self, mechanism):
        rng = np.random.default_rng(3)
        for _ in range(50):
            first, second, scale = rng.exponential(2.0, 6), rng.exponential(2.0, 6), rng.uniform(0.1, 3)
            ratio = np.abs(mechanism.log_law(first, scale) - mechanism.log_law(second, scale)).max()
            assert ratio <= scale * np.ptp(first - second) * (1 + 1e-12)

    def test_nothing_to_choose_is_an_error_on_the_host_and_a_status_under_a_trace(self, mechanism):
        with pytest.raises(ValueError, match="at least one candidate"):
            mechanism.law([np.inf, np.inf], 1.0)
        with pytest.raises(ValueError, match="at least one candidate"):
            mechanism.sample(jax.random.key(0), np.zeros((2, 2)), 1.0, [[True, True], [False, False]])
        costs, where = jnp.asarray([[np.inf, np.inf], [1.0, 0.0]]), jnp.asarray([[True, True], [False, False]])
        for forms in ("race", "inverse", "permutation")[: 3 if mechanism is permute_and_flip else 2]:
            draw = jax.jit(lambda c, w, form=forms: mechanism.sample(jax.random.key(0), c, 1.0, w, form=form))
            assert draw(costs, where).tolist() == [-1, -1]
        assert jax.jit(mechanism.law)(costs, 1.0, where).tolist() == [[0, 0], [0, 0]]
        assert jax.jit(mechanism.log_law)(costs, 1.0, where).tolist() == [[-np.inf] * 2] * 2

    @pytest.mark.parametrize(
        ("costs", "scale", "where", "message"),
        [
            ([0.0, np.nan], 1.0, None, "costs is .*NaN"),
            ([0.0, -np.inf], 1.0, None, "costs is .*-inf"),
            ([], 1.0, None, "costs is .*at least one"),
            (3.0, 1.0, None, r"costs is 3.0. .*\(\*batch, m\)"),
            ([0.0, 1.0], -1.0, None, "scale is -1.0. .*not negative"),
            ([0.0, 1.0], np.inf, None, "scale is .*finite"),
            ([0.0, 1.0], [1.0, 2.0], None, "scale is .*scalar"),
            ([0.0, 1.0], 1.0, [1, 0], "where is .*booleans"),
            ([0.0, 1.0], 1.0, [True, False, True], "where is .*broadcasts"),
        ],
    )
    def test_bad_input_names_the_argument_and_the_remedy(self, mechanism, costs, scale, where, message):
        with pytest.raises(ValueError, match=message):
            mechanism.law(costs, scale, where)
        with pytest.raises(ValueError, match=message):
            mechanism.sample(jax.random.key(0), costs, scale, where)

    def test_an_unknown_form_is_refused(self, mechanism):
        with pytest.raises(ValueError, match=r"form is 'gumbel'. Choose among"):
            mechanism.sample(jax.random.key(0), [0.0], 1.0, form="gumbel")


def test_permute_and_flip_never_has_a_larger_expected_cost_than_the_exponential_mechanism():
    rng = np.random.default_rng(4)
    for _ in range(50):
        costs, scale = rng.exponential(2.0, 9), rng.uniform(0.05, 5)
        ours, theirs = (m.law(costs, scale) @ costs for m in MECHANISMS)
        assert ours <= theirs * (1 + 1e-12)
