"""The proof of "nothing is lost", as one command with a table of figures.

    python -m tests.faults --runs 10000 [--seed N] [--jobs 2] [-v]

Each run is a random conversation with a demo gateway over a link that breaks at random, decided
by one seed. What the gateway's agent really did says what the editor must have seen. A failed run
is repeated by its seed: ``--seed N --runs 1 -v``.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.faults.campaign import Figures, campaign, run_here


def main() -> int:
    options = _options()
    began = time.monotonic()
    if options.runs == 1:
        figures = run_here(range(options.seed, options.seed + 1))
    else:
        figures = campaign(options.seed, options.runs, options.jobs, progress=_progress)
    print(table(figures, time.monotonic() - began))
    if options.verbose:
        for seed, findings in figures.failures.items():
            for finding in findings:
                print(f"seed {seed}: {finding.category}: {finding.detail}")
    return 1 if figures.failures else 0


def table(figures: Figures, seconds: float) -> str:
    """The figures as text."""
    rows = [
        ("runs", figures.runs),
        ("prompts", figures.prompts),
        ("faults", figures.faults.total()),
    ]
    rows += [(f"  {kind}", number) for kind, number in sorted(figures.faults.items())]
    rows += [*figures.found.items()]
    lines = [f"{name:<32}{number:>9}" for name, number in rows]
    lines.append(f"{'seconds':<32}{seconds:>9.0f}")
    failed = sorted(figures.failures)[:20]
    lines += [f"failed: python -m tests.faults --seed {seed} --runs 1 -v" for seed in failed]
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first run; each has the next")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what went wrong")
    return parser.parse_args()


def _progress(done: int, runs: int, failed: int) -> None:
    print(f"{done} of {runs} runs, {failed} failed", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
