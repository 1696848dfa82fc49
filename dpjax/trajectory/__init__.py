"""Private state trajectories, their exact laws, and what they protect (paper B). A "law" is a probability distribution.

protocol             the protocol of a mechanism on a trajectory, its guarantee, the protection report, the registry
mechanism1           Mechanism 1 and its variants; chen: the baseline of Chen et al.; both draw online and select by costs
offline              draws the whole private trajectory at once, by backward messages
randomised_response  reports each state independently: a baseline whose output need not be a path of the chain
adjacency            which trajectories are neighbouring: Definition 4 and Hamming; the guarantee within a radius
calibration          mechanisms matched by their exact loss; the loss of adjacent trajectories; upper bounds
losses               the exact privacy loss of one step for all pairs of states, in tiles that can be resumed
graph                what all mechanisms on one chain share: edges, distances, recursions, checks of input
steps                mechanisms that draw one step at a time: laws on the host, cached for a stream, or traced
kernel               the edges of a chain packed by degree, and the law of the next private state
batch                draws of one run and of many runs
exact                the exact law of a private trajectory given the sensitive one; error, entropy and agreement of trajectories
joint                the chain of (s, s') for a random sensitive trajectory: its operator, exact law and stationary law
traced               exact laws within a trace, differentiable in P, epsilon and rho
"""

from dpjax.trajectory.adjacency import Adjacency, HammingAdjacency
from dpjax.trajectory.batch import StepCache
from dpjax.trajectory.calibration import adjacency_epsilon, exact_scale, match_substitution
from dpjax.trajectory.chen import ChenMechanism
from dpjax.trajectory.exact import (
    ExactLaw,
    agreement,
    empirical_entropy,
    feasible,
    information_content,
    path_errors,
    running_maximum,
    visit_divergence,
    visit_frequencies,
)
from dpjax.trajectory.joint import joint_law, joint_stationary
from dpjax.trajectory.losses import kappa, pairwise_losses, substitution_epsilon, trajectory_loss
from dpjax.trajectory.mechanism import OnlineMechanism
from dpjax.trajectory.mechanism1 import TrajectoryMechanism
from dpjax.trajectory.offline import OfflineMechanism
from dpjax.trajectory.protocol import Guarantee, Option, TrajectoryProtocol, exact_law, kinds, make, protection, register
from dpjax.trajectory.randomised_response import RandomisedResponse
from dpjax.trajectory.traced import TracedJointLaw, TracedLaw, TracedStationary

__all__ = [
    "Adjacency",
    "ChenMechanism",
    "ExactLaw",
    "Guarantee",
    "HammingAdjacency",
    "OfflineMechanism",
    "OnlineMechanism",
    "Option",
    "RandomisedResponse",
    "StepCache",
    "TracedJointLaw",
    "TracedLaw",
    "TracedStationary",
    "TrajectoryMechanism",
    "TrajectoryProtocol",
    "adjacency_epsilon",
    "agreement",
    "empirical_entropy",
    "exact_law",
    "exact_scale",
    "feasible",
    "information_content",
    "joint_law",
    "joint_stationary",
    "kappa",
    "kinds",
    "make",
    "match_substitution",
    "pairwise_losses",
    "path_errors",
    "protection",
    "register",
    "running_maximum",
    "substitution_epsilon",
    "trajectory_loss",
    "visit_divergence",
    "visit_frequencies",
]
