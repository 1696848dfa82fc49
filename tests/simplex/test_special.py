import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np

from dpjax.simplex.hockey_stick import log_beta_shift
from dpjax.simplex.special import expm1mx, log1pmx, log_minus_digamma, stirling_remainder


def _float64(function, *arguments):
    with jax.enable_x64(True):
        return np.asarray(function(*(jnp.asarray(np.asarray(x, dtype=np.float64)) for x in arguments)))


def _worst(ours, exact):
    return max(abs(mp.mpf(float(o)) / e - 1) for o, e in zip(ours, exact, strict=True))


def test_differences_of_logarithms_and_exponentials_keep_relative_accuracy():
    small = np.array([-0.999, -0.6, -0.5, -0.3, -1e-9, 1e-12, 1e-3, 0.2, 0.69, 0.71, 5.0, 1e6])
    with mp.workdps(50):
        assert _worst(_float64(log1pmx, small), [mp.log1p(mp.mpf(x)) - mp.mpf(x) for x in small]) < 1e-15
        wide = np.array([-50.0, -0.6, -0.49, -1e-8, 1e-10, 0.3, 0.49, 0.51, 3.0, 40.0])
        assert _worst(_float64(expm1mx, wide), [mp.expm1(mp.mpf(x)) - mp.mpf(x) for x in wide]) < 2e-15


def test_stirling_remainder_and_digamma_excess():
    x = np.array([1e-6, 0.01, 0.3, 1.0, 2.5, 9.9, 10.1, 500.0, 1e6, 1e14])
    with mp.workdps(60):
        exact = [mp.loggamma(t) - (t - 0.5) * mp.log(t) + t - mp.log(2 * mp.pi) / 2 for t in map(mp.mpf, x)]
        assert max(abs(o - float(e)) for o, e in zip(_float64(stirling_remainder, x), exact, strict=True)) < 5e-15
        assert _worst(_float64(log_minus_digamma, x), [mp.log(t) - mp.digamma(t) for t in map(mp.mpf, x)]) < 5e-15


def test_beta_ratio_at_huge_arguments():
    p, q, h = np.array([1.5, 0.02, 1e9, 3e14]), np.array([4.0, 7.0, 2e9, 5e14]), np.array([0.2, 3.0, 2.0, 1e5])
    with mp.workdps(60):
        exact = []
        for a, b, c in zip(*map(list, (p, q, h)), strict=True):
            a, b, c = mp.mpf(a), mp.mpf(b), mp.mpf(c)
            terms = mp.loggamma(a), mp.loggamma(b + c), -mp.loggamma(a + c), -mp.loggamma(b)
            exact.append(sum(terms))
        assert _worst(_float64(log_beta_shift, p, q, h), exact) < 1e-12
