"""release: publishing real data. Exact arithmetic, the operating system's entropy, a privacy statement.

entropy, urn           uniform whole numbers; draws from a Dirichlet row by a Polya urn, exactly
forms                  what a form of the mechanism is: `theorem7` (the default), `paper_form` (by explicit choice)
reference, price       what a release will cost, before the data are read
public_files, records  the public lists, and the records, read without quoting them
selection              a private support through OpenDP
model, plan            the private model; a release from beginning to end
statement, output      the privacy statement; the files, all or none
error_bars             what a receiver can say, from the release alone
ledger                 a budget for one data set
private_report         what the holder alone may see
"""

from dpjax.release.error_bars import error_bars
from dpjax.release.failures import RecordError
from dpjax.release.ledger import Budget, Charge, charge, check_affordable, open_ledger
from dpjax.release.model import PrivateModel
from dpjax.release.output import read_release, write_private, write_release
from dpjax.release.paper_form import PaperForm
from dpjax.release.plan import Plan
from dpjax.release.private_report import private_report
from dpjax.release.public_files import read_public_labels, read_public_support
from dpjax.release.records import Records, read_records
from dpjax.release.selection import ThresholdedSelection
from dpjax.release.theorem7 import Theorem7Form
from dpjax.release.urn import polya_urn

__all__ = [
    "Budget",
    "Charge",
    "PaperForm",
    "Plan",
    "PrivateModel",
    "RecordError",
    "Records",
    "Theorem7Form",
    "ThresholdedSelection",
    "charge",
    "check_affordable",
    "error_bars",
    "open_ledger",
    "polya_urn",
    "private_report",
    "read_public_labels",
    "read_public_support",
    "read_records",
    "read_release",
    "write_private",
    "write_release",
]
