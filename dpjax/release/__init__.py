"""release: publishing real data. Exact arithmetic, the operating system's entropy, a privacy statement.

statement           what every release says, of a model or of a stream: claims as values, the statement made of them
plan                the release of a model: what is public, the price, the one step that reads the records
stream              the release of a stream of states, the same way; `trajectory` holds its mechanism, exactly
ledger              a budget for one data set
records             the public lists, and the records, read without quoting them
secret              what is held of the records meanwhile, a bounded sample of each person's, and errors that quote nothing
selection           a private support, its exact cost, and the true delta of an earlier statement
model               the private model, drawn by an exact sampler of `dpjax.counts`; its files; the private report
error_bars          what a receiver can say, from the release alone
needs               what a release will need of memory and disk

The random decisions are those of `dpjax._exact`: whole numbers and the operating system's entropy.
Nothing here takes a seed, and no float reaches a random decision.
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
