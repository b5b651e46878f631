"""Pools beyond this machine, each an extra: jobs of SLURM by submitit, and a cluster of Ray."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from sfumato.errors import InputError, extra
from sfumato.flow.pool import Gone, LocalPool, Pool, Work, tried

POOLS = ("local", "slurm", "ray")
LOOK = 1.0  # seconds between two looks at the jobs of a scheduler


class SlurmPool(Pool[Any]):
    """Jobs of SLURM, one a task; `folder`, for their scripts and logs, must be seen by every machine."""

    where = "slurm"
    cluster: ClassVar[str] = "slurm"

    def __init__(self, workers: int, folder: Path, options: Mapping[str, Any]) -> None:
        super().__init__(workers)
        self._submitit = extra("submitit", "slurm")
        try:
            self._executor = self._submitit.AutoExecutor(folder=folder, cluster=self.cluster)
            self._executor.update_parameters(**options)
        except Exception as error:  # of many kinds: no srun here, options that SLURM does not know
            reason = " ".join(str(error).split())
            raise InputError(
                f"SLURM cannot be used here ({reason}); start this where `srun` is found, mend the options under "
                "`slurm` in the plan, or choose --pool local."
            ) from error
        self._jobs: list[Any] = []

    def start(self, work: Work, task: Any) -> Any:
        """Submit a job."""
        job = self._executor.submit(tried, work, task)
        self._jobs.append(job)
        return job

    def ended(self, going: list[Any]) -> list[Any]:
        """Ask the scheduler now and then."""
        while not (done := [job for job in going if job.done()]):
            time.sleep(LOOK)
        return done

    def answer(self, handle: Any) -> tuple[Any, str]:
        """What the job wrote."""
        self._jobs.remove(handle)
        try:
            found, lost = handle.result()
        except Exception as error:  # killed, timed out, or no output that can be read
            raise Gone from error
        return found, lost

    def close(self) -> None:
        """Cancel what is still going."""
        while self._jobs:
            self._jobs.pop().cancel()


class RayPool(Pool[Any]):
    """Tasks of a Ray cluster: the one of RAY_ADDRESS, or one on this machine for as long as the pool lasts."""

    where = "ray"

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to others
        self._ray = extra("ray", "ray")
        self._ours = not self._ray.is_initialized()
        if self._ours:
            here = {"num_cpus": workers, "include_dashboard": False}
            self._ray.init(log_to_driver=False, **({} if os.environ.get("RAY_ADDRESS") else here))
        self._tried = self._ray.remote(num_cpus=1, max_retries=0)(tried)  # tries are counted here

    def start(self, work: Work, task: Any) -> Any:
        """Hand it to the cluster."""
        return self._tried.remote(work, task)

    def ended(self, going: list[Any]) -> list[Any]:
        """The first that has ended."""
        done, _ = self._ray.wait(going, num_returns=1)
        return list(done)

    def answer(self, handle: Any) -> tuple[Any, str]:
        """What the task returned."""
        try:
            found, lost = self._ray.get(handle)
        except self._ray.exceptions.RayError as error:
            raise Gone from error
        return found, lost

    def close(self) -> None:
        """End a cluster that was begun here."""
        if self._ours:
            self._ray.shutdown()


def make_pool(kind: str, workers: int, folder: Path, options: Mapping[str, Any]) -> Pool[Any]:
    """A pool by its name; `folder` and `options` are for SLURM."""
    check_pool(kind, workers)
    if kind == "slurm":
        return SlurmPool(workers, folder, options)
    return RayPool(workers) if kind == "ray" else LocalPool(workers)


def check_pool(kind: str, workers: int) -> None:
    """Refuse a pool that there is not."""
    if kind not in POOLS:
        raise InputError(f"Expected --pool as {', '.join(POOLS[:-1])} or {POOLS[-1]}, found '{kind}'.")
    if not 1 <= workers <= 1000:
        raise InputError(f"Expected --workers from 1 to 1000, found {workers}.")
