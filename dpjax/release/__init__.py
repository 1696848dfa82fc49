"""release: publishing real data. Exact arithmetic, the operating system's entropy, a privacy statement.

plan                a release from beginning to end: what is public, the price, the one step that reads the records
records             the public lists, and the records, read without quoting them
secret              what is held of the records meanwhile, a bounded sample of each person's, and errors that quote nothing
selection           a private support, its exact cost, and the true delta of an earlier statement
model               the private model, drawn by an exact sampler of `dpjax.counts`; the private report
claims              what is claimed: relation, unit, epsilon, delta, and the sentences made from them
statement, output   the privacy statement; the files, all or none
needs               what a release will need of memory and disk
error_bars          what a receiver can say, from the release alone
ledger              a budget for one data set
trajectory, stream  a private stream of states; trajectory_statement: what it protects

The random decisions are those of `dpjax._exact`: whole numbers and the operating system's entropy.
Nothing here takes a seed, and no float reaches a random decision.
"""

from dpjax.release.error_bars import error_bars
from dpjax.release.ledger import Budget, charge, open_ledger
from dpjax.release.model import (
    PrivateModel,
    private_report,
    read_release,
    reading_report,
    write_private,
    write_reading_report,
    write_release,
)
from dpjax.release.plan import Plan
from dpjax.release.records import read_public_labels, read_public_support, read_records
from dpjax.release.secret import PersonColumn, PersonSampler, RecordError, Records
from dpjax.release.selection import ThresholdedSelection, true_delta
from dpjax.release.statement import restated
from dpjax.release.trajectory import StreamError, TrajectoryRelease, private_lines
from dpjax.release.trajectory_statement import TrajectoryStatement, trajectory_statement

__all__ = [
    "Budget",
    "PersonColumn",
    "PersonSampler",
    "Plan",
    "PrivateModel",
    "RecordError",
    "Records",
    "StreamError",
    "ThresholdedSelection",
    "TrajectoryRelease",
    "TrajectoryStatement",
    "charge",
    "error_bars",
    "open_ledger",
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
