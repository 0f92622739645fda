"""What every stage costs at the size that it is for. `python -m benchmarks.scale PART`."""

from __future__ import annotations

import argparse

from benchmarks.scale import start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    of_start = parts.add_parser("start", help="start-up, first batch and border of a node's ranks")
    of_start.add_argument("--samples", type=int, default=10_000_000)
    of_start.add_argument("--ranks", type=int, default=8)
    options = parser.parse_args()
    start.main(options.samples, options.ranks)


if __name__ == "__main__":
    main()
