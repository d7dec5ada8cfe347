"""Flink in one JVM of this process: client, job manager and task manager, spoken to through its Java API.

Part of `flink_program.py`: runs in Flink's own virtual environment, whose packages are known there only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from weft_bench.systems.flink_texts import (
    SINK,
    allowance,
    cluster_settings,
    job_settings,
    jvm_arguments,
    sampled,
    stream_table,
    without_rowtimes,
)

_OPERATOR = "org.apache.flink.taskmanager.job.task.operator"
_TASK = "org.apache.flink.taskmanager.job.task"
_WAIT = 30.0
_FAILED = ("FAILED", "FAILING")


@dataclass(frozen=True, slots=True)
class Insert:
    """A query to run: into nothing, and if observed a part of its event times to the print sink as number `number`."""

    number: int
    text: str
    newest: tuple[str, ...] = ()
    part: float = 1.0


@dataclass(frozen=True, slots=True)
class State:
    """A job as the cluster sees it."""

    live: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class Sources:
    """The counters of a job's sources: by stream and source, one per reader."""

    counters: Mapping[str, Mapping[str, Sequence[Any]]]

    def of(self, stream: str) -> dict[str, int]:
        """How many readers each source of a stream has."""
        return {name: len(counters) for name, counters in self.counters.get(stream, {}).items()}


class Session:
    """A cluster and a client; every method may be called from any thread but `submit`, which is for one at a time."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._order = order
        log = Path(order["scratch"]) / "log"
        log.mkdir(parents=True, exist_ok=True)
        os.environ |= {"JVM_ARGS": jvm_arguments(order), "FLINK_LOG_DIR": str(log)}
        gateway = import_module("pyflink.java_gateway").get_gateway()
        self._jvm: Any = gateway.jvm
        self._process = int(self._jvm.java.lang.ProcessHandle.current().pid())
        # Flink's planner keeps things by Java thread, and a thread of Python's may get any free connection, each
        # of which is another thread of Java's. So those who only look have a gateway of their own.
        looking = import_module("py4j.java_gateway").JavaGateway(gateway_parameters=gateway.gateway_parameters)
        self._looking: Any = looking.jvm
        self._beans: Any = self._looking.java.lang.management.ManagementFactory.getPlatformMBeanServer()
        self._cluster = self._start_cluster()
        self._port = int(self._cluster.getRestAddress().get().getPort())
        # The machine may have a proxy for everything; this is our own process.
        self._web = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        api = self._jvm.org.apache.flink.table.api
        settings = api.EnvironmentSettings.newInstance().inStreamingMode()
        configuration = self._configuration(job_settings(order, self._port))
        self._tables: Any = api.TableEnvironment.create(settings.withConfiguration(configuration).build())

    def _configuration(self, settings: Mapping[str, str]) -> Any:
        made = self._jvm.org.apache.flink.configuration.Configuration()
        for key, value in settings.items():
            made.setString(key, value)
        return made

    def _start_cluster(self) -> Any:
        parts = self._jvm.org.apache.flink.runtime.minicluster
        settings = cluster_settings(self._order)
        built = parts.MiniClusterConfiguration.Builder().setConfiguration(self._configuration(settings))
        built = built.setNumSlotsPerTaskManager(int(settings["taskmanager.numberOfTaskSlots"]))
        cluster = parts.MiniCluster(built.setNumTaskManagers(1).withRandomPorts().build())
        cluster.start()
        return cluster

    def submit(self, inserts: Sequence[Insert], folders: Mapping[str, Path]) -> str:
        """Run queries as one job that reads the streams in `folders`; gives its id. Raises what Flink raises."""
        for stream in self._order["streams"]:
            self._tables.executeSql(f"DROP TEMPORARY TABLE IF EXISTS `{stream['name']}`")
            folder = str(folders[stream["name"]].absolute())
            self._tables.executeSql(stream_table(stream, folder, allowance(self._order)))
        statements = self._tables.createStatementSet()
        for insert in inserts:
            self._add(statements, insert)
        return str(statements.execute().getJobClient().get().getJobID().toString())

    def _add(self, statements: Any, insert: Insert) -> None:
        view = f"query_{insert.number}"
        table = self._tables.sqlQuery(insert.text)
        self._tables.createTemporaryView(view, table)
        checks = self._jvm.org.apache.flink.table.types.logical.utils.LogicalTypeChecks
        columns, rowtimes = list[tuple[str, str]](), list[str]()
        for column in table.getResolvedSchema().getColumns():
            kind = column.getDataType().getLogicalType()
            columns.append((column.getName(), _plain(str(kind.asSummaryString()))))
            if checks.isTimeAttribute(kind):
                rowtimes.append(column.getName())
        everything = self._tables.sqlQuery(without_rowtimes(view, columns, rowtimes))
        statements.addInsert(self._sink("blackhole"), everything)
        if insert.newest:
            times = self._tables.sqlQuery(sampled(view, insert.newest, insert.part))
            statements.addInsert(self._sink("print", **{"print-identifier": f"{SINK} {insert.number}"}), times)

    def _sink(self, connector: str, **options: str) -> Any:
        described = self._jvm.org.apache.flink.table.api.TableDescriptor.forConnector(connector)
        for key, value in options.items():
            described = described.option(key, value)
        return described.build()

    def forget(self, numbers: Sequence[int]) -> None:
        """Take back the names that `submit` gave to these queries."""
        for number in numbers:
            self._tables.dropTemporaryView(f"query_{number}")

    def states(self) -> dict[str, State]:
        """All jobs there have been, by id."""
        found = {}
        for job in self._get("/jobs/overview")["jobs"]:
            tasks = job["tasks"]
            live = job["state"] == "RUNNING" and tasks["running"] == tasks["total"]
            found[job["jid"]] = State(live=live, failed=job["state"] in _FAILED)
        return found

    def cause(self, job: str) -> str:
        """The first line of why a job failed."""
        entries = self._get(f"/jobs/{job}/exceptions").get("exceptionHistory", {}).get("entries", [])
        return root_cause(entries[0]["stacktrace"]) if entries else "the job failed"

    def _get(self, path: str) -> Any:
        try:
            with self._web.open(f"http://localhost:{self._port}{path}", timeout=_WAIT) as answer:
                return json.load(answer)
        except OSError as error:
            heap = f"{self._order['heap_gigabytes']} GB"
            raise RuntimeError(f"Flink does not answer ({error}): its heap of {heap} may be full") from error

    def sources(self, job: str, streams: Sequence[str]) -> Sources:
        """The counters of a live job's sources."""
        found: dict[str, dict[str, dict[int, Any]]] = {}
        for name in self._names(f"{_OPERATOR}.numRecordsOut:job_id={job},operator_name=Source*,*"):
            operator = str(name.getKeyProperty("operator_name"))
            stream = next((each for each in streams if operator.startswith(f"Source-_{each}[")), None)
            if stream is not None:
                place = int(name.getKeyProperty("subtask_index"))
                found.setdefault(stream, {}).setdefault(operator, {})[place] = name
        return Sources(
            {
                stream: {operator: [names[place] for place in sorted(names)] for operator, names in each.items()}
                for stream, each in found.items()
            }
        )

    def emitted(self, sources: Sources, stream: str) -> dict[str, list[int]]:
        """Rows each reader of a stream has emitted, by source."""
        return {
            source: [self._count(counter) for counter in counters]
            for source, counters in sources.counters.get(stream, {}).items()
        }

    def bytes_out(self) -> int:
        """Bytes that tasks of running jobs have sent to other tasks."""
        return sum(self._count(name) for name in self._names(f"{_TASK}.numBytesOut:*"))

    def result_rows(self) -> int:
        """Rows that have reached the sinks of running jobs that take all rows."""
        return sum(
            self._count(name)
            for name in self._names(f"{_OPERATOR}.numRecordsIn:operator_name=*blackhole*,*")
            if "Writer" in str(name.getKeyProperty("operator_name"))
        )

    def _names(self, pattern: str) -> list[Any]:
        return list(self._beans.queryNames(self._looking.javax.management.ObjectName(pattern), None))

    def _count(self, name: Any) -> int:
        return int(self._beans.getAttribute(name, "Count"))

    def cancel(self, job: str) -> None:
        """End a job, and wait for the cluster to say that it will."""
        self._cluster.cancelJob(self._jvm.org.apache.flink.api.common.JobID.fromHexString(job)).get()

    def state_bytes(self, job: str, folder: Path) -> int | None:
        """How large a job's state is when written to `folder`; None if that cannot be done in time."""
        identity = self._jvm.org.apache.flink.api.common.JobID.fromHexString(job)
        formats = self._jvm.org.apache.flink.core.execution.SavepointFormatType
        unit = self._jvm.java.util.concurrent.TimeUnit.SECONDS
        asked = self._cluster.triggerSavepoint(identity, f"file://{folder.absolute()}", False, formats.NATIVE)
        try:
            asked.get(int(_WAIT), unit)
        except Exception:  # a savepoint that fails or takes too long is no answer, whatever the reason
            return None
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    def kill(self) -> None:
        """End the JVM at once, with all its jobs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)


def root_cause(trace: str) -> str:
    """The innermost cause of a Java stack trace, in one line."""
    lines = [line.strip().removeprefix(": ") for line in trace.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    # py4j says first where it was when it happened.
    said = [line for line in lines if not line.startswith("An error occurred while calling")]
    cause = causes[-1] if causes else (said or lines or ["unknown"])[0]
    return re.sub(r"^(?:[\w$]+\.)+(?=[\w$]+(?::|$))", "", cause)


def _plain(kind: str) -> str:
    """A type as SQL says it in a cast: without marks for event times and missing nulls."""
    return kind.replace(" *ROWTIME*", "").replace(" *PROCTIME*", "").replace(" NOT NULL", "")
