"""trajectory: private state trajectories drawn online, their exact laws, and what they protect (paper B).

adjacency     which trajectories must look alike: Definition 4, and Hamming
mechanism1    Mechanism 1 and its variants; mechanism2: the baseline of Chen et al.; both are `mechanism` with other costs
radius        the guarantee that Mechanism 1 and the offline mechanism share
neighbours    a chain's edges packed by degree; graph: they and the distances found so far, for one chain
kernel        the law of the next private state; uniforms: what a transition is drawn from; online, batch: one run, many runs
exact         the exact law of the private trajectory of a given sensitive one, for every mechanism; evolution: its recursions
sharded_law   the exact law over several devices
losses        the exact privacy loss of a step; loss_tiles: of all pairs of states, resumable
calibration   scales matched by the exact loss; adjacency_loss: what adjacent trajectories lose; report: what (epsilon, rho) protects
joint_chain   the operator of (s, s') for a random sensitive trajectory; joint: its exact law; stationary: in the long run
drift         drift towards the sensitive state; sufficient_drift: its sufficient condition; neighbourhoods: one-step ranges
joint_mixing  how fast the joint chain forgets its start
concentration tails of the error; tails: beside the exact tail; printed: the paper's own forms; bound: what a bound says
expected_entropy, entropy_tails, typicality: the empirical entropy's mean, tails and distribution, and the typical set
offline       the whole private trajectory drawn at once; messages: its recursions
traced_law    laws, tails and entropies that differentiate in P, epsilon and rho; traced_stationary: their long run
measures      errors, entropy and agreement of private trajectories
"""

from dpjax.trajectory.batch import TrajectoryState
from dpjax.trajectory.calibration import Bound, adjacency_epsilon, exact_scale, match_substitution
from dpjax.trajectory.exact import (
    ExactLaw,
    ShardedLaw,
    agreement,
    empirical_entropy,
    exact_law,
    feasible,
    information_content,
    path_errors,
    running_maximum,
    sharded_law,
    transition_lengths,
    visit_divergence,
    visit_frequencies,
)
from dpjax.trajectory.joint import JointChain, JointLaw, StationaryJointLaw, joint_law, joint_stationary
from dpjax.trajectory.losses import kappa, pairwise_losses, substitution_epsilon, trajectory_loss
from dpjax.trajectory.mechanisms import Adjacency, ChenMechanism, HammingAdjacency, TrajectoryMechanism
from dpjax.trajectory.offline import OfflineMechanism
from dpjax.trajectory.randomised_response import RandomisedResponse
from dpjax.trajectory.report import ProtectionReport, protection
from dpjax.trajectory.traced import TracedLaw, TracedStationary, traced_exceedance, traced_law, traced_stationary

__all__ = [
    "Adjacency",
    "Bound",
    "ChenMechanism",
    "ExactLaw",
    "HammingAdjacency",
    "JointChain",
    "JointLaw",
    "OfflineMechanism",
    "ProtectionReport",
    "RandomisedResponse",
    "ShardedLaw",
    "StationaryJointLaw",
    "TracedLaw",
    "TracedStationary",
    "TrajectoryMechanism",
    "TrajectoryState",
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
    "match_substitution",
    "pairwise_losses",
    "path_errors",
    "protection",
    "running_maximum",
    "sharded_law",
    "substitution_epsilon",
    "traced_exceedance",
    "traced_law",
    "traced_stationary",
    "trajectory_loss",
    "transition_lengths",
    "visit_divergence",
    "visit_frequencies",
]
