"""Hand a job to Slurm (through submitit) or to a supervisor on this machine."""

from __future__ import annotations

import io
import shlex
import sys
import time
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path

from submitit import SlurmExecutor
from submitit.core.utils import FailedJobError

from launch.jobs import slurm
from launch.jobs.cluster import ClusterConfig, Resources
from launch.jobs.local import run_here, start_in_background
from launch.jobs.record import Job, read_job
from launch.jobs.snapshot import SOURCE, take_snapshot
from launch.status import UNKNOWN, is_live, job_state
from panendofm.records.run import RunFolder
from panendofm.runtime.console import say, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text
from panendofm.runtime.locks import directory_lock

# A watchdog that is not up by then (its srun fails, the node is overloaded) holds no stage back.
WATCHDOG_SECONDS = 60
# After the first task of a job has ended well, the others have this long. One that fails takes the others with it: the
# ranks notice by themselves when one of them is gone or stopped (run.timeout_seconds), and save before they leave.
STRAGGLER_SECONDS = 300


class StageExecutor(SlurmExecutor):  # type: ignore[misc]
    """submitit's sbatch script and submission, for a command instead of a pickled function.

    A pickle would tie a queued job to the code that unpickles it, and submitit's own signal handler requeues before
    the stage has saved. So each task runs the stage itself, and the script's last lines decide on the requeue.
    """

    @classmethod
    def affinity(cls) -> int:
        return 2  # `--dry-run` writes the script on machines without Slurm; `submit` asks for Slurm itself

    def script(self, command: str) -> str:
        return str(self._make_submission_file_text(command, ""))

    def submit_command(self, command: str) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        # submitit also prints what sbatch says; the error that it raises has the same words.
        with redirect_stderr(io.StringIO()):
            return str(self._submit_command(command).job_id)


def describe(
    stage: str,
    run: Path | str,
    words: list[str],
    cluster: ClusterConfig,
    *,
    uses_ray: bool = False,
    restarts_freely: bool = False,
    output: Path | str | None = None,
    after: list[str] | None = None,
) -> Job:
    """The job of a stage. `output` exists when it is done; `after` are Slurm's dependencies (afterok:12)."""
    resources = cluster.resources(stage)
    run = Path(run).absolute()
    return Job(
        stage=stage,
        run=str(run),
        words=words,
        working_directory=str(Path.cwd()),
        kind=cluster.kind,
        code=str(SOURCE),
        nodes=resources.nodes,
        tasks_per_node=1 if uses_ray else resources.tasks,
        cpus_per_task=resources.cpus_per_task,
        environment=dict(cluster.environment),
        max_restarts=cluster.max_restarts,
        uses_ray=uses_ray,
        restarts_freely=restarts_freely,
        output=str(Path(output).absolute()) if output is not None else None,
        after=after or [],
    )


def submit(job: Job, cluster: ClusterConfig, files: dict[str, str] | None = None) -> Job:
    """Start the job and return it with its number. A second one beside a live one is refused.

    `files` are written beside the job's record.
    """
    if cluster.kind == "slurm":
        slurm.require_slurm()
    with directory_lock(job.folder):
        refuse_second(job)
        job = replace(job, code=str(take_snapshot(RunFolder(Path(job.run)).job("code"))), submitted=time.time())
        for name, content in (files or {}).items():
            write_text(job.folder / name, content)
        if cluster.kind == "slurm":
            job = _sbatch(job, cluster)
            size = f"{job.nodes} × {job.tasks_per_node} processes"
            say(f"{job.stage}: Slurm job {job.job_id} ({size}), logs in {job.folder}")
            _warn_if_stuck(job)
        else:
            job.save()
        if cluster.kind == "local":
            job = job.with_id(start_in_background(job))
            job.save()
            say(f"{job.stage}: process {job.job_id} in the background, logs in {job.folder}")
    if cluster.kind == "debug":
        code = run_here(job)
        if code != 0:
            raise UserError(f"'{job.command}' ended with exit code {code}; its lines are above and in {job.folder}.")
    return job


def refuse_second(job: Job) -> None:
    if not job.record.is_file():
        return
    state = job_state(job.folder)
    if state.state == UNKNOWN:
        raise UserError(f"{job.stage} of {job.run} may still run as job {state.job_id}; ask again when Slurm answers.")
    if is_live(state):
        raise UserError(
            f"{job.stage} of {job.run} is already {state.state.lower()} as job {state.job_id}; wait for it, or end it "
            f"with 'python -m launch cancel {job.run}'."
        )


def sbatch_script(job: Job, cluster: ClusterConfig) -> str:
    """The script that `submit` would hand to sbatch."""
    return _executor(job, cluster).script(_task_command(job, cluster))


def _sbatch(job: Job, cluster: ClusterConfig) -> Job:
    before = read_job(job.folder) if job.record.is_file() else None
    # The record comes first: the job may start before this process hears its number.
    job.save()
    try:
        job = job.with_id(_executor(job, cluster).submit_command(_task_command(job, cluster)))
    except FailedJobError as error:
        # There is no such job; the last one of this stage is still the last one.
        if before is not None:
            before.save()
        else:
            job.record.unlink()
        raise slurm.refusal(str(error), f"take the {job.stage} job") from None
    job.save()
    return job


def _task_command(job: Job, cluster: ClusterConfig) -> str:
    module = "launch.jobs.ray_cluster" if job.uses_ray else "launch.jobs.task"
    container = f"{cluster.container} " if cluster.container else ""
    return f"{container}{_python(cluster)} -m {module} {shlex.quote(str(job.folder))}"


def _in_container(cluster: ClusterConfig) -> bool:
    """By a command in front of python (Apptainer and its like), or by srun itself (Pyxis, OCI)."""
    return cluster.container is not None or any(name.startswith("container") for name in cluster.srun)


def _python(cluster: ClusterConfig) -> str:
    return shlex.quote(cluster.python or sys.executable)


def _host_python(cluster: ClusterConfig) -> str:
    """For what runs beside the stage and asks Slurm: not in the container, which has no Slurm."""
    return shlex.quote(sys.executable) if _in_container(cluster) else _python(cluster)


def _executor(job: Job, cluster: ClusterConfig) -> StageExecutor:
    resources = cluster.resources(job.stage)
    executor = StageExecutor(job.folder, python=_python(cluster))
    executor.update_parameters(
        job_name=f"{job.stage}:{Path(job.run).name}",
        nodes=resources.nodes,
        ntasks_per_node=job.tasks_per_node,
        cpus_per_task=resources.cpus_per_task,
        time=resources.time_minutes,
        signal_delay_s=cluster.warn_seconds,
        stderr_to_stdout=True,
        comment=str(job.folder),
        srun_args=[
            "--open-mode=append",
            f"--cpus-per-task={resources.cpus_per_task}",  # since Slurm 22.05 srun does not take sbatch's
            *(["--no-kill", "--wait=0"] if job.uses_ray else ["--kill-on-bad-exit=1", f"--wait={STRAGGLER_SECONDS}"]),
            *(f"--{name}={value}" if value else f"--{name}" for name, value in cluster.srun.items()),
        ],
        setup=_setup_lines(job, cluster),
        teardown=[
            "code=$?",
            f"{_host_python(cluster)} -m launch.jobs.on_exit {shlex.quote(str(job.folder))} $code",
            "exit $?",
        ],
        additional_parameters=_sbatch_options(job, cluster, resources),
    )
    return executor


def _sbatch_options(job: Job, cluster: ClusterConfig, resources: Resources) -> dict[str, object]:
    named = {
        "partition": resources.partition,
        "account": cluster.account,
        "qos": cluster.qos,
        "constraint": cluster.constraint,
        "exclude": cluster.exclude,
        "gpus-per-node": resources.gpus_per_node or None,
        "mem": f"{round(resources.memory_gb * 1024)}M" if resources.memory_gb is not None else None,
        "dependency": ",".join(job.after) or None,
        # What waits for a job that failed will never start: better gone than waiting for ever.
        "kill-on-invalid-dep": "yes" if job.after else None,
        # Ray goes on when a node of its allocation dies; everything else is started anew.
        "no-kill": True if job.uses_ray else None,
    }
    chosen: dict[str, object] = {name: value for name, value in named.items() if value is not None}
    return {"requeue": True, "chdir": job.working_directory, **chosen, **cluster.sbatch}


def _setup_lines(job: Job, cluster: ClusterConfig) -> list[str]:
    return [
        *cluster.setup,
        *(f"export {name}={shlex.quote(value)}" for name, value in cluster.environment.items()),
        # The snapshot, and not the folder in which the job runs, is where Python finds the code.
        f"export PYTHONPATH={shlex.quote(job.code)}${{PYTHONPATH:+:$PYTHONPATH}} PYTHONSAFEPATH=1",
        # A preempted or cancelled job tells this shell too: it must outlive the stage, which is saving then.
        "trap : TERM",
        "kept= SECONDS=0; trap 'kept=yes' USR1",
        # A step of its own on the node of this shell, so that it outlives it.
        "srun --overlap --relative=0 --nodes=1 --ntasks=1 --cpus-per-task=1 --mem=0 --quiet "
        f"{_host_python(cluster)} -m launch.jobs.requeue_watchdog {shlex.quote(str(job.folder))} $$ &",
        # Killed before the watchdog is up, the script would leave nobody who starts the stage again.
        f'while [ -z "$kept" ] && [ $SECONDS -lt {WATCHDOG_SECONDS} ] && kill -0 $! 2> /dev/null; do sleep .1; done',
    ]


def _warn_if_stuck(job: Job) -> None:
    """Slurm takes some jobs that it can never start; say so now rather than after a night of waiting."""
    known = slurm.states([job.job_id or ""]).get(job.job_id or "")
    if known and known.reason in ("PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints"):
        warn(
            f"job {job.job_id} can't start: it asks for more nodes, time or features than the partition has "
            f"({known.reason}); end it with 'scancel {job.job_id}' and change the cluster file."
        )


def describe_dry_run(job: Job, cluster: ClusterConfig) -> str:
    """What `--dry-run` prints."""
    if cluster.kind == "slurm":
        return sbatch_script(job, cluster)
    count = job.tasks_per_node
    return f"{count} process{'es' if count > 1 else ''} on this machine: {job.command}"
