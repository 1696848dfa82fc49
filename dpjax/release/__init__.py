"""release: publish real records with exact arithmetic, the operating system's entropy and a privacy statement.

statement           the claims of a release as values, and the privacy statement made from them
plan                the release of a model: its public parameters, its price, the one step that reads the records
stream              the same for a stream of states; `trajectory` has its mechanism in exact arithmetic
ledger              the privacy budget of one data set
records             readers of the public lists and of the records; errors quote no content
secret              the records in memory, a bounded sample of each person's records, and errors that quote no content
selection           a private support, its exact cost, and the true delta of an earlier statement
model               the private model, drawn by an exact sampler of `dpjax.counts`; its files; the private report
error_bars          error bars that a receiver computes from the release alone
needs               the memory and disk space that a release needs

Random decisions come from `dpjax._exact`: whole numbers and the operating system's entropy. No function takes a seed, and no float enters
a random decision.
"""

from dpjax.release.error_bars import error_bars, noisy_counts
from dpjax.release.ledger import Charge, charge
from dpjax.release.model import (
    PrivateModel,
    private_report,
    read_release,
    reading_report,
    write_private,
    write_reading_report,
    write_release,
)
from dpjax.release.plan import Plan, restated
from dpjax.release.records import read_public_labels, read_public_support, read_records
from dpjax.release.secret import PersonColumn, PersonSampler, RecordError, Records
from dpjax.release.selection import ThresholdedSelection, true_delta
from dpjax.release.statement import Claim, ReleasePlan, Statement
from dpjax.release.stream import StreamPlan, trajectory_statement
from dpjax.release.trajectory import StreamError, TrajectoryRelease, private_lines

__all__ = [
    "Charge",
    "Claim",
    "PersonColumn",
    "PersonSampler",
    "Plan",
    "PrivateModel",
    "RecordError",
    "Records",
    "ReleasePlan",
    "Statement",
    "StreamError",
    "StreamPlan",
    "ThresholdedSelection",
    "TrajectoryRelease",
    "charge",
    "error_bars",
    "noisy_counts",
    "private_lines",
    "private_report",
    "read_public_labels",
    "read_public_support",
    "read_records",
    "read_release",
    "reading_report",
    "restated",
    "trajectory_statement",
    "true_delta",
    "write_private",
    "write_reading_report",
    "write_release",
]
