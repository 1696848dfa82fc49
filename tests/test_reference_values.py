"""Every reference value of the specification, computed once in multi-precision arithmetic outside this package: to 1e-10 relative.

Names and inputs are those of the specification's file; where that file is at hand, a test holds that no value of it is left out.
"""

import json

import numpy as np
import pytest

from dpjax.chains import MarkovChain, deviation_matrix, entropy_rate, ergodicity_coefficient, stationary_distribution
from dpjax.chains.mixing import tau1
from dpjax.paths import shortest_paths
from dpjax.selection import permute_and_flip
from dpjax.simplex import exact_delta, exact_epsilon, expected_kl, expected_kl_bound, renyi_divergence
from dpjax.simplex._rounding import in_blocks
from dpjax.simplex.exact import calibrate_exact, delta_floor
from dpjax.simplex.hockey_stick import log_beta_hockey_stick
from dpjax.simplex.theorem1 import omega_delta, theorem1_epsilon
from dpjax.theory import geometric_tail, joint_drift
from dpjax.theory.concentration import hajek
from dpjax.trajectory import (
    ChenMechanism,
    TrajectoryMechanism,
    exact_law,
    exact_scale,
    joint_law,
    joint_stationary,
    kappa,
    match_substitution,
    pairwise_losses,
)

P3 = np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]])
P4 = np.array([[0, 0.7, 0.3, 0], [0, 0, 0.6, 0.4], [0.5, 0, 0, 0.5], [0.2, 0.8, 0, 0]])
CHAIN3 = MarkovChain.from_matrix(P3)
GRADES = {"eta": 0.073, "n_records": 98, "n_categories": 5}
K, GAMMA = 20.6, 4e-4


def on(P, **options):
    return TrajectoryMechanism(MarkovChain.from_matrix(P), epsilon=1.0, rho=1.0, **options)


def m3(**options):
    return TrajectoryMechanism(CHAIN3, epsilon=1.0, rho=1.0, **options)


def symmetrised(m):
    return m.adjacency.symmetrised(m.graph.all_distances())


def word_law():
    return exact_law(m3(), [0, 0, 1, 2, 1, 0], start=0)


def geometric():
    tail = geometric_tail(joint_law(m3(), 1).chain, 0.5, 0.3)
    return [tail.constant, tail.bound(0.0).value]


def fundamental_norms(P):
    """Row and column norms of A# + 1 pi and of A# - 1 pi, and tau_1(A#)."""
    deviation, pi = np.asarray(deviation_matrix(P)), np.asarray(stationary_distribution(P))
    sizes = [np.abs(deviation + sign * pi).sum(axis).max() for sign in (1, -1) for axis in (1, 0)]
    return [*sizes, tau1(P)]


REFERENCE = [
    (
        "PF1",
        "d=(0,0.5,1.3,4), c=0.7",
        [0.5286711159118674, 0.29936377089116717, 0.151344271981193, 0.020620841215772363],
        lambda: permute_and_flip.law([0, 0.5, 1.3, 4], 0.7),
    ),
    (
        "PF2 ties",
        "d=(0,0,1,2.5), c=0.4",
        [0.34751649912728694, 0.34751649912728694, 0.20289026835007923, 0.1020767333953469],
        lambda: permute_and_flip.law([0, 0, 1, 2.5], 0.4),
    ),
    (
        "PF3 two",
        "d=(0,2), c=1: (1-e^-2/2, e^-2/2)",
        [0.9323323583816937, 0.06766764161830635],
        lambda: permute_and_flip.law([0, 2], 1.0),
    ),
    (
        "G zero-diag",
        "P3=[[.92,.05,.03],[.04,.91,.05],[.01,.09,.90]]",
        [
            0.0,
            2.995732273553991,
            3.506557897319982,
            3.2188758248682006,
            0.0,
            2.995732273553991,
            4.605170185988092,
            2.407945608651872,
            0.0,
        ],
        lambda: shortest_paths(P3),
    ),
    (
        "diag G 'cycle'",
        "P3",
        [0.08338160893905106, 0.09431067947124133, 0.1053605156578263],
        lambda: np.diag(shortest_paths(P3, diagonal="cycle")),
    ),
    (
        "G zero-diag P4",
        "P4=[[0,.7,.3,0],[0,0,.6,.4],[.5,0,0,.5],[.2,.8,0,0]]",
        [
            0.0,
            0.3566749439387324,
            0.8675005677047231,
            1.2729656758128873,
            1.203972804325936,
            0.0,
            0.5108256237659907,
            0.9162907318741551,
            0.6931471805599453,
            0.9162907318741551,
            0.0,
            0.6931471805599453,
            1.4271163556401456,
            0.22314355131420976,
            0.7339691750802004,
            0.0,
        ],
        lambda: shortest_paths(P4),
    ),
    (
        "kernel row",
        "P3, eps=1,rho=1: pi(.|s=2,s'=0)",
        [0.08014756813476484, 0.10534842663131046, 0.8145040052339247],
        lambda: exact_law(m3(), [0, 2], start=0).marginals[1],
    ),
    (
        "ell(s,v)",
        "P3, eps=1,rho=1: (0,1),(1,0),(0,2),(2,0),(1,2),(2,1)",
        [2.1416674432337857, 2.062782794603133, 2.3691793520511713, 2.859549211503087, 1.9767782234583067, 1.7694036639402424],
        lambda: pairwise_losses(m3())[[0, 1, 0, 2, 1, 2], [1, 0, 2, 0, 2, 1]],
    ),
    (
        "Gavg",
        "P3: (0,1),(0,2),(1,2)",
        [3.1073040492110957, 4.055864041654036, 2.7018389411029315],
        lambda: symmetrised(m3())[[0, 0, 1], [1, 2, 2]],
    ),
    (
        "r=kappa(c0)/(eps/rho)",
        "P3, eps=1,rho=1, c0=1/2: avg, max",
        [0.731641769383691, 0.6653464003450578],
        lambda: [kappa(m, symmetrised(m)) for m in (m3(), m3(symmetrisation="max"))],
    ),
    (
        "calibrated c*",
        "P3, eps=1,rho=1: avg, max (bisection, kappa(c*)=1)",
        [0.7123725458804935, 0.8020296199706584],
        lambda: [exact_scale(m3()), exact_scale(m3(symmetrisation="max"))],
    ),
    ("calibrated c* Hamming-1", "P3, max_{s!=v} ell_c = 1", [0.15939554666076686], lambda: match_substitution(m3(), 1.0).scale),
    ("r on P4", "eps=1,rho=1 avg", [1.0], lambda: kappa(on(P4), symmetrised(on(P4)))),
    (
        "M2 tau",
        "|N|=3, eps=1, b=1",
        [0.5761168847658291],
        lambda: exact_law(ChenMechanism(CHAIN3, epsilon=1.0, b=1), [0, 1], start=0).marginals[1, 1],
    ),
    (
        "fixed w: P(V_t>=3), t=1..5",
        "P3, eps=1,rho=1, w=(0,0,1,2,1,0), s'_0=0",
        [0.14333333333333334, 0.0, 0.08014756813476484, 0.0, 0.14333333333333334],
        lambda: word_law().step_exceedance(3.0)[1:],
    ),
    ("fixed w: P(max_t V>=3)", "same", [0.3249407414192565], lambda: word_law().exceedance(3.0)),
    ("fixed w: mean_t E V_t (1..5)", "same", [0.5840379037849799], lambda: word_law().expected_error[1:].mean()),
    (
        "fixed w: E H_n, Var H_n (n=5)",
        "same, H_n=(1/n) sum W(s'_t,s'_{t+1})",
        [2.1194799149394306, 0.18441912530193516],
        lambda: [word_law().expected_entropy, word_law().variance_entropy],
    ),
    (
        "joint stationary E V, P(V>=3)",
        "P3, eps=1,rho=1",
        [0.5956769904549677, 0.06102111231613662],
        lambda: [joint_stationary(m3()).expected_error, joint_stationary(m3()).exceedance(3.0)],
    ),
    (
        "drift",
        "P3, eps=1: (s,s')=(0,0),(0,1),(0,2),(1,0),...,(2,2)",
        [
            0.5336652932437622,
            -2.685210531624439,
            -4.071504892744329,
            -2.3663617055624027,
            0.6293705679915884,
            -1.7785750406602836,
            -2.907109351015313,
            -2.396283727249322,
            0.5994485463046687,
        ],
        lambda: joint_drift(m3()).values,
    ),
    (
        "Hajek phi, M",
        "P3, eps=1, eta=0.5, level a=2.5",
        [0.38956654279891717, 0.5152069266766967],
        lambda: hajek(joint_law(m3(), 1).chain, 0.5, 2.5),
    ),
    (
        "Theorem A beta",
        "eta=0.5, phi=0.3; bound on E_stat e^{eta V}=beta/(1-phi)",
        [1.4982488681615673, 2.1403555259450964],
        lambda: geometric(),
    ),
    (
        "random w: P(max_{t<=5} V>=3)",
        "P3, eps=1, Z_0=(0,0)",
        [0.46179543494341346],
        lambda: joint_law(m3(), 5, start=0).exceedance(3.0),
    ),
    (
        "stationary, H(S)",
        "P3",
        [0.25862068965517243, 0.4425287356321839, 0.2988505747126437, 0.3538911009728323],
        lambda: [*stationary_distribution(P3), entropy_rate(P3)],
    ),
    (
        "Thm1 eps, tight-s eps",
        "N=98,n=5,k=20.6,eta=.073,gamma=.0004",
        [2.21190752888708, 2.1709610182551398],
        lambda: [theorem1_epsilon(K, 0.073, 98, 5, GAMMA, form) for form in ("printed", "corrected")],
    ),
    ("exact delta", "eps=0, N=98,k=20.6,eta=.073", [0.10625008639649842], lambda: exact_delta(0.0, k=K, **GRADES)),
    ("exact delta", "eps=.5, N=98,k=20.6,eta=.073", [0.006250611549832454], lambda: exact_delta(0.5, k=K, **GRADES)),
    ("exact delta", "eps=1, N=98,k=20.6,eta=.073", [0.00019272421566556832], lambda: exact_delta(1.0, k=K, **GRADES)),
    ("exact delta", "eps=2.255, N=98,k=20.6,eta=.073", [2.456095293485759e-08], lambda: exact_delta(2.255, k=K, **GRADES)),
    (
        "exact eps",
        "delta=.0026 ; 1e-5 (k=20.6)",
        [0.629405963396306, 1.4148250247901113],
        lambda: exact_epsilon([0.0026, 1e-5], k=K, **GRADES),
    ),
    (
        "exact k",
        "(eps,delta)=(2.255,.0026); (2.255,1e-5)",
        [249.19727641758027, 91.15748099989291],
        lambda: calibrate_exact(epsilon=2.255, delta=[0.0026, 1e-5], **GRADES),
    ),
    (
        "exact delta, lattice corner",
        "counts>=8 of 98, k=20.6, eps=1",
        [9.09457201974908e-05],
        lambda: exact_delta(1.0, k=K, lattice=True, **GRADES),
    ),
    (
        "exact delta, r=2 moved",
        "k=20.6, eta=.073, N=98, eps=1",
        [0.012869633752433936],
        lambda: np.exp(in_blocks(log_beta_hockey_stick)(1.0, K * 0.073, K * 0.073, 2 * K / 98)),
    ),
    (
        "exact delta, smoothed",
        "all databases: N=98,n=5, pseudo-count alpha=2: eta=2/108, N_eff=108, k=20.6, eps=1",
        [0.03354858716896843],
        lambda: exact_delta(1.0, k=K, eta=2 / 108, n_records=108, n_categories=5),
    ),
    ("delta floor k->0", "eps=1, m=N*eta=7.154: exp(-m eps)/(2m+1)", [5.1066820978234934e-05], lambda: delta_floor(1.0, **GRADES)),
    (
        "Renyi",
        "alpha=2,4 ; k=20.6,eta=.073,N=98",
        [0.07621731852090578, 0.16075412973458164],
        lambda: [renyi_divergence(alpha, k=K, **GRADES) for alpha in (2, 4)],
    ),
    (
        "delta_Omega (Thm 1)",
        "corner, k=20.6,eta=.073,gamma=.0004,n=5",
        [0.0019953492964066575],
        lambda: omega_delta(K, 0.073, 5, GAMMA).delta,
    ),
    (
        "delta_Omega sandwich",
        "1-prod(1-q_i), sum q_i",
        [0.001995179085774892, 0.001996673602881294],
        lambda: [omega_delta(K, 0.073, 5, GAMMA).lower, omega_delta(K, 0.073, 5, GAMMA).upper],
    ),
    ("E KL", "C=(.4,.3,.15,.08,.07), k=20.6", [0.10439868345685913], lambda: expected_kl([0.4, 0.3, 0.15, 0.08, 0.07], K)),
    ("Corollary 1", "N=98,n=5,k=20.6", [0.14179565654677617], lambda: expected_kl_bound(98, 5, K)),
    (
        "KL bordered corner",
        "C=(eta x4, 1-4eta), eta=.073,k=20.6",
        [0.10752493069951519],
        lambda: [expected_kl([0.073] * 4 + [1 - 4 * 0.073], K)],
    ),
    ("tau_inf", "P3 (n odd: median gets weight 0)", [0.91], lambda: ergodicity_coefficient(P3)),
    ("tau_inf", "P4 (n even)", [1.5], lambda: ergodicity_coefficient(P4)),
    (
        "Z norms",
        "P3: ||Z+||_inf, ||Z+||_1, ||Z-||_inf, ||Z-||_1, tau1(A#)",
        [13.33016250495442, 11.800435988902102, 14.29567974633373, 12.317677368212445, 10.344827586206897],
        lambda: fundamental_norms(P3),
    ),
]


@pytest.mark.parametrize(
    ("inputs", "expected", "compute"), [r[1:] for r in REFERENCE], ids=[f"{r[0]} ({i})" for i, r in enumerate(REFERENCE)]
)
def test_value(inputs, expected, compute):
    np.testing.assert_allclose(np.ravel(compute()), expected, rtol=1e-10, atol=1e-15, err_msg=inputs)


def test_the_thresholds_of_the_tails_lie_on_no_distance():
    """The references are for V >= 3, the library's for V > 3: no distance is 3, so they agree, and nothing is near."""
    G, just_below = shortest_paths(P3), np.nextafter(3.0, 0.0)
    assert np.abs(G - 3.0).min() > 1e-3
    assert word_law().exceedance(3.0) == word_law().exceedance(just_below)
    assert (word_law().step_exceedance(3.0) == word_law().step_exceedance(just_below)).all()
    assert joint_stationary(m3()).exceedance(3.0) == joint_stationary(m3()).exceedance(just_below)
    assert joint_law(m3(), 5, start=0).exceedance(3.0) == joint_law(m3(), 5, start=0).exceedance(just_below)


def test_no_value_of_the_specification_is_left_out(shared_data):
    path = shared_data.parent / "spec" / "reference-values.json"
    if not path.is_file():
        pytest.skip(f"the specification is not at {path}")
    stated = json.loads(path.read_text(encoding="utf-8"))
    assert [(r["name"], r["inputs"], [float(v) for v in r["value"]]) for r in stated] == [r[:3] for r in REFERENCE]
