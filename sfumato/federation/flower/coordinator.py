"""A coordinator's end: a run of Flower, led from this process and not from one that Flower starts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from sfumato.errors import InputError
from sfumato.federation.flower.link import ROOT, SECRET, Link, looks

PATIENCE = 10.0  # seconds in which a run that was just started is handed out
OURS = "sfumato/sfumato"  # what Flower calls the app below
APP = """
[project]
name = "sfumato"
version = "0.1.0"
description = "Carries bytes; sites run their own code."
license = "Apache-2.0"
[tool.flwr.app]
publisher = "sfumato"
[tool.flwr.app.components]
serverapp = "none:app"
clientapp = "none:app"
"""  # Flower starts no run without an app; this one holds no code


@contextmanager
def led(link: Link) -> Iterator[Any]:
    """The grid of a new run, which is over when this ends."""
    from flwr.common.constant import SubStatus
    from flwr.proto.runtime_pb2 import PushTaskOutputRequest
    from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
    from flwr.supercore.run import RunNotRunningException
    from flwr.superlink.grid import HttpGrid
    from httpx import HTTPError

    grid = HttpGrid(*link.place, token=_leading(link))
    client = grid._runtime_client
    beats = HeartbeatSender(make_task_heartbeat_fn_http(client))
    beats.start()
    end = SubStatus.FAILED
    try:
        _enter(grid, client)
        yield grid
        end = SubStatus.COMPLETED
    except RunNotRunningException as error:
        raise InputError(f"Another coordinator leads at {link.address} now; let one lead at a time.") from error
    finally:
        grid._retry_invoker.max_tries = 1  # who wants to end does not wait for a SuperLink that is gone
        with suppress(HTTPError, RunNotRunningException):
            client.PushTaskOutput(PushTaskOutputRequest(sub_status=end))
        beats.stop()
        grid.close()


def _leading(link: Link) -> str:
    """What the leader of a new run shows with each call."""
    from httpx import HTTPError

    try:
        return _token(link, _started(link))
    except HTTPError as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"The SuperLink at {link.address} cannot be led ({reason}): look whether it runs there, and whether "
            f"{ROOT} and {SECRET} name its files."
        ) from error


def _started(link: Link) -> int:
    """The number of a new run."""
    from flwr.cli.build import build_fab_from_files
    from flwr.common.serde import fab_to_proto
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.fab import Fab
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

    app, _ = build_fab_from_files({"pyproject.toml": APP.encode()})
    version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
    with closing(ControlHttpClient.from_server_address(*link.place, [version])) as client:
        _take_over(client)
        return int(client.StartRun(StartRunRequest(fab=fab_to_proto(Fab("", app, {})))).run_id)


def _take_over(client: Any) -> None:
    """Stop runs of coordinators that were killed: no site is to answer what one of them has asked."""
    from flwr.common.constant import Status
    from flwr.proto.control_pb2 import ListRunsRequest, StopRunRequest

    for run in client.ListRuns(ListRunsRequest()).run_dict.values():
        if run.fab_id == OURS and run.status.status != Status.FINISHED:
            client.StopRun(StopRunRequest(run_id=run.run_id))


def _token(link: Link, run: int) -> str:
    """That of a run; those whose coordinator was lost before it had one are passed over."""
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.runtime import RuntimeHttpClient

    wanted = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
    with closing(RuntimeHttpClient.from_server_address(*link.place, _shown(link))) as client:
        for _ in looks(time.monotonic() + PATIENCE):
            found = client.AcquireTask(wanted)
            if found.token and found.task.run_id == run:
                return str(found.token)
    raise InputError(
        f"The SuperLink at {link.address} gave the run to another; start it with --isolation process, "
        "and let one coordinator at a time lead there."
    )


def _shown(link: Link) -> list[Any]:
    """What is shown to be handed a run."""
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor, SuperExecAuthHttpInterceptor

    version = RuntimeVersionHttpInterceptor(component_name="SuperExec")
    if link.secret is None:
        return [version]
    methods = {"/flwr.proto.Runtime/AcquireTask"}
    return [version, SuperExecAuthHttpInterceptor(master_secret=link.secret, protected_methods=methods)]


def _enter(grid: Any, client: Any) -> None:
    """Take the number of the run, which messages carry."""
    from flwr.common.serde import run_from_proto
    from flwr.proto.runtime_pb2 import PullTaskInputRequest
    from flwr.supercore.task_identity import TaskIdentity

    task = client.PullTaskInput(PullTaskInputRequest())
    TaskIdentity.task_id, TaskIdentity.run_id = task.task_id, task.run.run_id
    TaskIdentity.node_id = task.context.node_id
    grid.set_run(run_from_proto(task.run))
