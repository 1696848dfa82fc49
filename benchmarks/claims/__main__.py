"""`python -m benchmarks.claims --minutes 60 --seed 0 --out FILE`: search, and write a JSON line for each finding and a summary at the end."""

from __future__ import annotations

import argparse
import collections
import pathlib
import sys
import time
import traceback
from typing import Any

import tqdm

from benchmarks.claims import cases
from benchmarks.claims.cases import Broken, Case, Refused, TooLong
from benchmarks.claims.kinds import KINDS
from benchmarks.claims.referee import UndecidedError


class Tally:
    """The counts and findings of one kind of claims."""

    def __init__(self) -> None:
        self.cases = self.claims = self.refused = self.undecided = self.findings = 0
        self.seconds = 0.0
        self.worst: dict[str, float] = {}
        self.false: collections.Counter[str] = collections.Counter()

    def add(self, case: Case, how: str, seconds: float) -> None:
        """Add one case, which ended as `how` after `seconds`."""
        self.cases, self.claims, self.seconds = self.cases + 1, self.claims + case.held, self.seconds + seconds
        self.refused += how == "refused"
        self.undecided += how == "undecided"
        self.findings += len(case.findings)
        self.false.update(finding["claim"] for finding in case.findings)
        for claim, ratio in case.worst.items():
            self.worst[claim] = max(self.worst.get(claim, 0.0), ratio)

    def as_dict(self) -> dict[str, Any]:
        """The counts for the summary. The worst ratio of a claim is truth over stated value, or error over tolerance."""
        return {**{k: v for k, v in vars(self).items() if k != "seconds"}, "seconds": round(self.seconds, 1)}


def run(kind: str, seed: int, number: int) -> tuple[Case, str]:
    """Run one case; returns (case, "judged", "refused", "undecided" or "broken")."""
    case = Case(kind, seed, number)
    try:
        with cases.time_limit(cases.CALL_S + cases.REFEREE_S):
            KINDS[kind](case)
    except Refused:
        return case, "refused"
    except (UndecidedError, TooLong):
        return case, "undecided"
    except Broken:
        return case, "broken"
    except Exception as error:
        case.found("the search itself does not fail", "".join(traceback.format_exception(error)[-3:]).strip())
        return case, "broken"
    return case, "judged"


def search(kinds: list[str], seed: int, seconds: float, out: pathlib.Path) -> dict[str, Any]:
    """Run cases of every kind, with the same time for each kind, until the time is over. Returns the summary."""
    tallies = {kind: Tally() for kind in kinds}
    start = time.monotonic()
    with out.open("w", encoding="utf-8") as stream, tqdm.tqdm(total=round(seconds), unit="s", file=sys.stderr) as bar:
        while (now := time.monotonic() - start) < seconds:
            kind = min(kinds, key=lambda k: tallies[k].seconds)
            began = time.monotonic()
            case, how = run(kind, seed, tallies[kind].cases)
            tallies[kind].add(case, how, time.monotonic() - began)
            for finding in case.findings:
                stream.write(cases.as_json(finding) + "\n")
                stream.flush()
            bar.update(min(round(time.monotonic() - start), round(seconds)) - bar.n)
            bar.set_postfix_str(
                f"{sum(t.cases for t in tallies.values())} cases, {sum(t.findings for t in tallies.values())} findings"
            )
        summary = {"seed": seed, "minutes": round(now / 60, 2), "kinds": {kind: tally.as_dict() for kind, tally in tallies.items()}}
        stream.write(cases.as_json({"summary": summary}) + "\n")
    return summary


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns 0 if every claim holds, else 1."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claims", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("claims.jsonl"))
    parser.add_argument("--only", choices=sorted(KINDS), action="append", help="search only this kind; repeatable")
    parser.add_argument("--number", type=int, help="run only this case of the kind of --only and print it")
    given = parser.parse_args(arguments)
    kinds = given.only or list(KINDS)
    if given.number is not None:
        if len(kinds) != 1:
            parser.error("--number needs exactly one --only KIND")
        case, how = run(kinds[0], given.seed, given.number)
        print(cases.as_json({"how": how, "parameters": case.parameters, "worst": case.worst, "findings": case.findings}))
        return int(bool(case.findings))
    summary = search(kinds, given.seed, 60 * given.minutes, given.out)
    for kind, tally in summary["kinds"].items():
        print(
            f"{kind}: {tally['cases']} cases, {tally['claims']} claims, {tally['refused']} refused, {tally['undecided']} undecided"
        )
        for claim, ratio in sorted(tally["worst"].items()):
            print(f"    {claim}: worst ratio {ratio:.6g}, false {tally['false'].get(claim, 0)} times")
        for claim in sorted(set(tally["false"]) - set(tally["worst"])):
            print(f"    {claim}: false {tally['false'][claim]} times")
    return int(any(tally["findings"] for tally in summary["kinds"].values()))


if __name__ == "__main__":
    sys.exit(main())
