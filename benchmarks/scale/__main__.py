"""What every stage costs at the size that it is for. `python -m benchmarks.scale PART`."""

from __future__ import annotations

import argparse

from benchmarks.scale import build, curation, guard, sharding, start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    of_start = parts.add_parser("start", help="start-up, first batch and border of a node's ranks")
    of_start.add_argument("--samples", type=int, default=10_000_000)
    of_start.add_argument("--ranks", type=int, default=8)
    of_build = parts.add_parser("build", help="building the index of a shard set")
    of_build.add_argument("--samples", type=int, nargs="+", default=[50_000, 200_000])
    of_sharding = parts.add_parser("sharding", help="phase two of sharding, by number of frames")
    of_sharding.add_argument("--frames", type=int, nargs="+", default=[20_000, 100_000])
    of_sharding.add_argument("--jpeg-bytes", type=int, default=4000)
    of_driver = parts.add_parser("driver", help="the memory of the driver of sharding, by number of rows")
    of_driver.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    of_guard = parts.add_parser("guard", help="recall and time of the guard's quick search")
    of_guard.add_argument("--vectors", type=int, default=400_000)
    of_guard.add_argument("--similarities", type=float, nargs="+", default=[0.72, 0.8, 0.9])
    of_guard.add_argument("--frames", type=int, default=400)
    of_curation = parts.add_parser("curation", help="clusters and weights, by number of frames")
    of_curation.add_argument("--frames", type=int, nargs="+", default=[20_000, 100_000])
    of_curation.add_argument("--width", type=int, default=256)
    of_curation.add_argument("--sample", type=int, default=10_000)
    options = parser.parse_args()
    if options.part == "start":
        start.main(options.samples, options.ranks)
    elif options.part == "build":
        build.main(options.samples)
    elif options.part == "sharding":
        sharding.main(options.frames, options.jpeg_bytes)
    elif options.part == "curation":
        curation.main(options.frames, options.width, options.sample)
    elif options.part == "guard":
        guard.main(options.vectors, options.similarities, options.frames)
    else:
        sharding.driver(options.rows)


if __name__ == "__main__":
    main()
