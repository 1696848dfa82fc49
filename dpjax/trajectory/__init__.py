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

from dpjax.trajectory.adjacency import Adjacency, HammingAdjacency
from dpjax.trajectory.adjacency_loss import adjacency_epsilon
from dpjax.trajectory.bound import Bound
from dpjax.trajectory.calibration import exact_scale, match_substitution
from dpjax.trajectory.concentration import (
    Certificate,
    ExponentialTail,
    certificate,
    explicit_tail,
    geometric_tail,
    hajek,
    hajek_tail,
)
from dpjax.trajectory.drift import Drift, joint_drift
from dpjax.trajectory.entropy_tails import EntropyConcentration, typical_probability
from dpjax.trajectory.exact import ExactLaw, exact_law
from dpjax.trajectory.expected_entropy import EntropyBounds, entropy_bounds
from dpjax.trajectory.joint import JointLaw, joint_law
from dpjax.trajectory.joint_chain import JointChain
from dpjax.trajectory.losses import kappa, pairwise_losses, substitution_epsilon, trajectory_loss
from dpjax.trajectory.measures import (
    agreement,
    empirical_entropy,
    feasible,
    information_content,
    path_errors,
    running_maximum,
    transition_lengths,
    visit_divergence,
    visit_frequencies,
)
from dpjax.trajectory.mechanism1 import TrajectoryMechanism
from dpjax.trajectory.mechanism2 import ChenMechanism
from dpjax.trajectory.offline import OfflineMechanism
from dpjax.trajectory.online import TrajectoryState
from dpjax.trajectory.printed import printed_entropy_tail, printed_tail
from dpjax.trajectory.report import ProtectionReport, protection
from dpjax.trajectory.sharded_law import ShardedLaw, sharded_law
from dpjax.trajectory.stationary import StationaryJointLaw, joint_stationary
from dpjax.trajectory.sufficient_drift import drift_bound, sufficient_fraction
from dpjax.trajectory.tails import TailReport, tail_report
from dpjax.trajectory.traced_law import TracedLaw, traced_exceedance, traced_law
from dpjax.trajectory.traced_stationary import TracedStationary, traced_stationary
from dpjax.trajectory.typicality import Interval, entropy_distribution, typical_interval

__all__ = [
    "Adjacency",
    "Bound",
    "Certificate",
    "ChenMechanism",
    "Drift",
    "EntropyBounds",
    "EntropyConcentration",
    "ExactLaw",
    "ExponentialTail",
    "HammingAdjacency",
    "Interval",
    "JointChain",
    "JointLaw",
    "OfflineMechanism",
    "ProtectionReport",
    "ShardedLaw",
    "StationaryJointLaw",
    "TailReport",
    "TracedLaw",
    "TracedStationary",
    "TrajectoryMechanism",
    "TrajectoryState",
    "adjacency_epsilon",
    "agreement",
    "certificate",
    "drift_bound",
    "empirical_entropy",
    "entropy_bounds",
    "entropy_distribution",
    "exact_law",
    "exact_scale",
    "explicit_tail",
    "feasible",
    "geometric_tail",
    "hajek",
    "hajek_tail",
    "information_content",
    "joint_drift",
    "joint_law",
    "joint_stationary",
    "kappa",
    "match_substitution",
    "pairwise_losses",
    "path_errors",
    "printed_entropy_tail",
    "printed_tail",
    "protection",
    "running_maximum",
    "sharded_law",
    "substitution_epsilon",
    "sufficient_fraction",
    "tail_report",
    "traced_exceedance",
    "traced_law",
    "traced_stationary",
    "trajectory_loss",
    "transition_lengths",
    "typical_interval",
    "typical_probability",
    "visit_divergence",
    "visit_frequencies",
]
