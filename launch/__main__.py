"""`python -m launch VERB`: the stages together, and as jobs."""

from __future__ import annotations

import argparse

from panendofm.runtime.command_line import Command, Stage, run_stage
from panendofm.runtime.config import CONFIGS

_PIPELINE = "data_pipeline.config:PipelineConfig"
_PRETRAIN = "pretrain.config:PretrainConfig"
_EVALUATION = "eval_knn.config:EvalConfig"
_PROBE = "panendofm.linear_probe.config:ProbeConfig"


def _status_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def _logs_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", help="the stage whose log is wanted (default: the newest job's)")
    parser.add_argument("--lines", type=int, default=50, help="how many lines (default: 50)")
    parser.add_argument("--follow", action="store_true", help="go on until the job ends")


def _cancel_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", help="only this stage's job (default: all of the run)")


def _report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--images", "--pictures", action="store_true", help="draw patches and neighbors first (needs the weights)"
    )


def _cluster_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="FILE", help="where to run (default: in the background here)")
    parser.add_argument("--nodes", type=int, help="machines, instead of the cluster file's number")
    parser.add_argument("--partition", help="partition, instead of the cluster file's")
    parser.add_argument("--time-minutes", type=int, help="time limit of one go, instead of the cluster file's")
    parser.add_argument("--dry-run", action="store_true", help="print the job's script and submit nothing")


def _doctor_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="FILE", help="where to run (default: on this machine)")
    parser.add_argument("--nodes", type=int, help="machines, instead of the cluster file's number")
    parser.add_argument("--partition", help="partition, instead of the cluster file's")
    parser.add_argument(
        "--full",
        action="store_true",
        help="also an acceptance run: a training whose last rank is killed, resumed, exported and read again",
    )


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="FILE", help="where to run (default: here, one after the other)")
    parser.add_argument("--dry-run", action="store_true", help="print the jobs' scripts and submit nothing")


def _plan_options(parser: argparse.ArgumentParser) -> None:
    from pretrain import GPUS

    parser.add_argument(
        "--cluster", default=CONFIGS / "cluster" / "slurm.yaml", metavar="FILE", help="nodes, cores and time limit"
    )
    parser.add_argument("--nodes", type=int, help="machines, instead of the cluster file's number")
    parser.add_argument("--gpu", default="a100-80", help=f"kind of GPU: {', '.join(GPUS)} (default: a100-80)")
    parser.add_argument("--network", default="ib-200", help="between nodes: ib-200, ib-400, eth-100 (default: ib-200)")
    parser.add_argument("--images", type=int, help="images in the corpus, when the shards are not there yet")
    parser.add_argument(
        "--images-per-second", type=float, help="measured speed of one GPU, instead of the table's estimate"
    )
    parser.add_argument("--disk-gb-per-second", type=float, default=1.0, help="for checkpoints, shards (default: 1)")
    parser.add_argument("--video-hours", type=float, help="plan the shards of so many hours of video, too")
    parser.add_argument("--video-fps", type=float, default=1.0, help="frames looked at in a second of it (default: 1)")
    parser.add_argument("--kept-share", type=float, default=0.5, help="of them that pass the screens (default: 0.5)")
    parser.add_argument("--guarded-images", type=int, default=0, help="evaluation images that are kept out")
    parser.add_argument("--driver-memory-gb", type=float, default=64.0, help="where sharding is driven (default: 64)")


def _rehearse_options(parser: argparse.ArgumentParser) -> None:
    from pretrain import GPUS

    parser.add_argument("--nodes", type=int, default=1, help="machines (default: 1)")
    parser.add_argument("--gpus", type=int, default=1, help="GPUs of each (default: 1)")
    parser.add_argument("--gpu", default="a100-80", help=f"kind of GPU: {', '.join(GPUS)} (default: a100-80)")
    parser.add_argument(
        "--device",
        choices=("cuda", "cpu"),
        default="cuda",
        help="cpu: everything but devices, with any torch (default: cuda, which needs a torch that is built for it)",
    )


def _place(handler: str) -> str:
    return f"launch.commands:run_{handler}"


COMMANDS = [
    Command(
        "demo",
        "From a small synthetic corpus to a judged release, into FOLDER (default: demo_output).",
        _place("demo"),
        ("[FOLDER]",),
    ),
    Command(
        "tour",
        "The demo, then masks, a challenge, a video report and questions about lesions.",
        _place("tour"),
        ("[FOLDER]",),
    ),
    Command("pages", "Write FOLDER/pages.html, with a link to every page below FOLDER.", _place("pages"), ("FOLDER",)),
    Command("plan", "What a training will need, before it is submitted.", _place("plan"), (), _PRETRAIN, _plan_options),
    Command(
        "rehearse",
        "A few steps of a training on GPUs and ranks that are not there: what would fail, and where in the code.",
        _place("rehearse"),
        (),
        _PRETRAIN,
        _rehearse_options,
        show_config=False,
    ),
    Command(
        "doctor",
        "Whether this machine or cluster can train: every part tried, a table with remedies, a JSON for a bug report.",
        _place("doctor"),
        ("[WORDS…]",),
        options=_doctor_options,
    ),
    Command(
        "shard",
        "Prepare the data as a job, on a Ray cluster over its nodes.",
        _place("shard"),
        (),
        _PIPELINE,
        _cluster_options,
    ),
    Command(
        "pretrain",
        "Train as a job that saves and comes back after every interruption.",
        _place("pretrain"),
        (),
        _PRETRAIN,
        _cluster_options,
    ),
    Command(
        "watch",
        "Evaluate a run's checkpoints as they appear, in a job beside the training.",
        _place("watch"),
        ("RUN",),
        _EVALUATION,
        _cluster_options,
    ),
    Command("probe", "Probe released weights in a job.", _place("probe"), ("NETWORK…",), _PROBE, _cluster_options),
    Command(
        "run",
        "The whole chain as jobs that wait for one another; again, it submits only what is missing.",
        _place("all"),
        (),
        "launch.chain_config:ChainConfig",
        _run_options,
    ),
    Command(
        "status",
        "What all runs at FOLDER (default: runs) are doing.",
        _place("status"),
        ("[FOLDER]",),
        options=_status_options,
    ),
    Command("logs", "The end of a job's log.", "launch.control:print_logs", ("RUN",), options=_logs_options),
    Command(
        "report", "One page on a run that opens without a network.", _place("report"), ("RUN",), options=_report_options
    ),
    Command(
        "cancel", "End a run's jobs; they save first.", "launch.control:cancel_run", ("RUN",), options=_cancel_options
    ),
]
STAGE = Stage("python -m launch", COMMANDS, extra="cluster")

if __name__ == "__main__":
    run_stage(STAGE)
