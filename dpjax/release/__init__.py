"""release: publishing real data. Exact arithmetic, the operating system's entropy, a privacy statement.

entropy, urn           uniform whole numbers; draws from a Dirichlet row by a Polya urn, exactly
forms                  what a form of the mechanism is: `theorem7` (the default), `noise_form` (noisy counts), `paper_form` (by explicit choice)
persons, person_bound  a bounded sample of each person's records; spreads, person_cost: what a person then costs
reference, price       what a release will cost, before the data are read
public_files, records  the public lists, and the records, read without quoting them
selection              a private support, its exact cost, and the true delta of an earlier statement
model, plan            the private model; a release from beginning to end
statement, output      the privacy statement; the files, all or none
error_bars, noise_bars what a receiver can say, from the release alone
claims                 what is claimed: relation, unit, epsilon, delta, and the sentences made from them
ledger                 a budget for one data set
private_report         what the holder alone may see
exact_coins            coins of bias exp(-x), discrete Laplace and Gaussian noise, exactly
lengths, exact_selection   distances in whole numbers, permute-and-flip without floats
trajectory, stream     a private stream of states; trajectory_statement: what it protects

Nothing here takes a seed, and no float reaches a random decision.
"""

from dpjax.release.claims import Claim
from dpjax.release.error_bars import error_bars
from dpjax.release.exact import coin_exp, discrete_gaussian, discrete_laplace, permute_and_flip, polya_urn
from dpjax.release.ledger import Budget, ChainBudget, Charge, charge, check_affordable, open_ledger
from dpjax.release.model import PrivateModel, private_report
from dpjax.release.noise_form import NoiseForm
from dpjax.release.output import read_release, write_private, write_release
from dpjax.release.paper_form import PaperForm
from dpjax.release.plan import Plan
from dpjax.release.records import read_public_labels, read_public_support, read_records
from dpjax.release.secret import PersonColumn, PersonSampler, RecordError, Records
from dpjax.release.selection import ThresholdedSelection, true_delta
from dpjax.release.statement import restated
from dpjax.release.stream import StreamError, private_lines
from dpjax.release.theorem7 import Theorem7Form, person_cost
from dpjax.release.trajectory import TrajectoryRelease, WholeDistances
from dpjax.release.trajectory_statement import TrajectoryStatement, trajectory_statement
from dpjax.release.unit import PersonBound

__all__ = [
    "Budget",
    "ChainBudget",
    "Charge",
    "Claim",
    "NoiseForm",
    "PaperForm",
    "PersonBound",
    "PersonColumn",
    "PersonSampler",
    "Plan",
    "PrivateModel",
    "RecordError",
    "Records",
    "StreamError",
    "Theorem7Form",
    "ThresholdedSelection",
    "TrajectoryRelease",
    "TrajectoryStatement",
    "WholeDistances",
    "charge",
    "check_affordable",
    "coin_exp",
    "discrete_gaussian",
    "discrete_laplace",
    "error_bars",
    "open_ledger",
    "permute_and_flip",
    "person_cost",
    "polya_urn",
    "private_lines",
    "private_report",
    "read_public_labels",
    "read_public_support",
    "read_records",
    "read_release",
    "restated",
    "trajectory_statement",
    "true_delta",
    "write_private",
    "write_release",
]
