"""What a receiver can say from a private release: best estimates of a chain, and intervals. Post-processing: it spends no privacy budget.

table = NoisyCounts(counts, Noise("discrete-laplace", 2.0))
estimate = fit(table)
estimate.shares                                             the best estimate of the transition matrix
answers(estimate, key, ["stationary", "hitting:A:B"])       intervals
"""

from dpjax.estimate.answers import QUESTIONS, Estimate, answers, check_questions, fit
from dpjax.estimate.noise import NAMES, Noise, NoisyCounts, floor, project
from dpjax.estimate.prior import RANKS, FittedPrior, Step, public_table
from dpjax.estimate.synthetic import parse_lengths, trajectories

__all__ = [
    "NAMES",
    "QUESTIONS",
    "RANKS",
    "Estimate",
    "FittedPrior",
    "Noise",
    "NoisyCounts",
    "Step",
    "answers",
    "check_questions",
    "fit",
    "floor",
    "parse_lengths",
    "project",
    "public_table",
    "trajectories",
]
