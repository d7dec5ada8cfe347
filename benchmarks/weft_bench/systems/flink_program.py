"""Apache Flink as a system under test: speaks the lines of `driver.messages`, in Flink's own virtual environment.

Imports nothing of weft but its own parts (`flink_*.py`), which need no package that is not installed there.

Settings: `mode` is "set" (the queries of a `Create` are one job, the default) or "jobs" (a job per query); `sample` is
the part of an observed query's rows that is delivered; `slack`, `collector` and keys with a dot: see `flink_texts`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from weft_bench.systems.flink_gate import Gate, numbers
from weft_bench.systems.flink_session import Insert, Session, Sources, root_cause
from weft_bench.systems.flink_texts import to_row

_PREFIX = "@bench "
_STEP, _STEPS = 0.025, 0.25
"""Least and most seconds between looks at what jobs have read."""
_SOON, _STATES = 0.1, 1.0
"""Seconds between looks at the states of jobs, while some are not live and otherwise."""
_ROWS = 0.02
"""Rows that are delivered within so many seconds are reported together."""
_LAST_WORDS = 1.0
_SAMPLE = "0.02"
_END = "Terminating due to "
"""How a JVM announces its end when memory is out."""


class Voice:
    """Says messages to the driver, from any thread, on a stream that nobody else writes to."""

    def __init__(self, stream: int) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self.session: Session | None = None
        """What ends with this process, once it is there."""

    def say(self, what: str, **fields: Any) -> None:
        """Send one message."""
        line = _PREFIX + json.dumps({"say": what} | fields) + "\n"
        with self._lock:
            data = line.encode()
            while data:
                data = data[os.write(self._stream, data) :]

    def fail(self, error: str) -> NoReturn:
        """Say that the system cannot go on, and end this process and what it started."""
        self.say("failed", error=error)
        self.end(1)

    def end(self, status: int) -> NoReturn:
        """End this process and the JVM, whatever other threads do."""
        if self.session is not None:
            self.session.kill()
        os._exit(status)


@dataclass(slots=True)
class Job:
    """A job and the queries in it; what it reads is handed over by its gates."""

    id: str
    reader: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    gates: Mapping[str, Gate]
    sources: Sources | None = None
    """Once it is live."""
    passed: dict[str, int] = field(default_factory=dict)
    began: float = 0.0


class Program:
    """All jobs of one order."""

    def __init__(self, order: Mapping[str, Any], voice: Voice, session: Session) -> None:
        self._order, self._voice, self._session = order, voice, session
        self._streams = {stream["name"]: Path(stream["folder"]) for stream in order["streams"]}
        self._scratch = Path(order["scratch"])
        self._part = float(order["settings"].get("sample", _SAMPLE))
        self._lock = threading.Lock()
        self._jobs: list[Job] = []
        self._queries: list[str] = []
        self._began = 0

    def create(self, queries: Sequence[Mapping[str, Any]]) -> None:
        """Start queries as jobs; they are said to be live by `watch`. All that fails is refused with its reason."""
        alone = self._order["settings"].get("mode", "set") == "jobs"
        groups = [[query] for query in queries] if alone else [list(queries)]
        started, first = list[Job](), self._first()
        for group in groups:
            try:
                started.append(self._start(group, first))
            except Exception as error:
                for job in started:
                    self._session.cancel(job.id)
                self._voice.say("refused", names=[query["name"] for query in queries], error=root_cause(str(error)))
                return
        with self._lock:
            self._jobs += started

    def _start(self, queries: Sequence[Mapping[str, Any]], first: int) -> Job:
        inserts = [self._insert(query) for query in queries]
        names = tuple(query["name"] for query in queries)
        self._began += 1
        reader = names[0] if len(names) == 1 else f"set {self._began}"
        gates = {
            name: Gate(folder, self._scratch / f"job{self._began}" / name, first)
            for name, folder in self._streams.items()
        }
        for gate in gates.values():
            gate.inside.mkdir(parents=True)
        try:
            job = self._session.submit(inserts, {name: gate.inside for name, gate in gates.items()})
        finally:
            self._session.forget([insert.number for insert in inserts])
        return Job(job, reader, names, tuple(insert.number for insert in inserts), gates)

    def _insert(self, query: Mapping[str, Any]) -> Insert:
        self._queries.append(query["name"])
        newest = tuple(query.get("newest", ())) if query.get("observed") else ()
        return Insert(len(self._queries) - 1, query["text"], newest, self._part)

    def _first(self) -> int:
        """The file that jobs begin with: the first with the oldest, later ones with the next to come."""
        there = [numbers(folder) for folder in self._streams.values()]
        if self._began == 0:
            return min((files[0] for files in there if files), default=0)
        return min((files[-1] + 1 if files else 0 for files in there), default=0)

    def drop(self, names: Sequence[str]) -> None:
        """Cancel the jobs of these queries, if they run no others."""
        with self._lock:
            chosen = [job for job in self._jobs if set(job.names) & set(names)]
        ours = {name for job in chosen for name in job.names}
        if unknown := sorted(set(names) - ours):
            self._voice.say("refused", names=names, error=f"no such query: {', '.join(unknown)}")
        elif others := ours - set(names):
            error = f"Flink cannot take a query out of a running job; {len(others)} others run in it"
            self._voice.say("refused", names=names, error=error)
        else:
            with self._lock:
                self._jobs = [job for job in self._jobs if job not in chosen]
            for job in chosen:
                self._session.cancel(job.id)
            self._voice.say("gone", names=names, at=time.time())

    def watch(self) -> None:
        """Say what goes live and what fails; for ever."""
        while True:
            with self._lock:
                jobs = list(self._jobs)
            states = self._session.states()
            for job in jobs:
                state = states[job.id]
                if state.failed:
                    self._voice.fail(self._session.cause(job.id))
                if state.live and job.sources is None:
                    self._go_live(job)
            time.sleep(_SOON if any(job.sources is None for job in jobs) else _STATES)

    def hand_over(self) -> None:
        """Hand files over to live jobs, and say how far they are; for ever."""
        while True:
            began = time.time()
            with self._lock:
                live = [(job, job.sources) for job in self._jobs if job.sources is not None]
            for job, sources in live:
                try:
                    self._step(job, sources)
                except Exception:
                    # The counters of a job go with it: whoever cancelled it knows, or `watch` says why it failed.
                    if self._session.states()[job.id].live:
                        raise
            # Where many jobs run, looking at them shall not take more than a fifth of a core from them.
            time.sleep(min(_STEPS, max(_STEP, 4 * (time.time() - began))))

    def _go_live(self, job: Job) -> None:
        sources = self._session.sources(job.id, list(self._streams))
        for name, gate in job.gates.items():
            gate.open(sources.of(name))
        job.began = time.time()
        self._voice.say("live", names=job.names, at=job.began)
        job.sources = sources  # from now on files are handed over

    def _step(self, job: Job, sources: Sources) -> None:
        passed = {name: gate.passed(self._session.emitted(sources, name)) for name, gate in job.gates.items()}
        # A file for every reader and one to wait: streams that are farther apart only fill the state of joins.
        last = min(passed.values()) + self._order["cores"]
        for gate in job.gates.values():
            gate.hand_over(last)
        if passed != job.passed:
            begun = [gate.begun(job.passed.get(name, 0), passed[name]) for name, gate in job.gates.items()]
            job.began = min((each for each in begun if each is not None), default=job.began)
            self._voice.say("pulled", reader=job.reader, files=passed, began=job.began, at=time.time())
            job.passed = passed

    def rows(self, stream: int) -> None:
        """Say what the print sinks of observed queries write to the JVM's standard output; for ever."""
        rest = b""
        while data := os.read(stream, 1 << 20):
            now = time.time()
            *lines, rest = (rest + data).split(b"\n")
            counts: Counter[tuple[int, int]] = Counter()
            for line in lines:
                text = line.decode(errors="replace")
                if text.startswith(_END):
                    self._voice.fail(text.removeprefix(_END))
                if (row := to_row(text)) is not None:
                    counts[row] += 1
            for number in sorted({number for number, _ in counts}):
                newest = [(time, count / self._part) for (of, time), count in sorted(counts.items()) if of == number]
                self._voice.say("delivered", query=self._queries[number], at=now, newest=newest)
            time.sleep(_ROWS)

    def report(self) -> None:
        """Say what Flink knows of itself."""
        with self._lock:
            jobs = list(self._jobs)
        sizes = [self._session.state_bytes(job.id, self._scratch / f"state{number}") for number, job in enumerate(jobs)]
        known = [size for size in sizes if size is not None]
        self._voice.say(
            "figures",
            bytes_shuffled=self._session.bytes_out(),
            state_bytes=sum(known) if len(known) == len(sizes) else None,
            result_rows=self._session.result_rows(),
            note="bytes between tasks of one process; state as a savepoint writes it",
        )


def _command(line: str) -> dict[str, Any] | None:
    return dict(json.loads(line.removeprefix(_PREFIX))) if line.startswith(_PREFIX) else None


def _serve(program: Program, voice: Voice) -> None:
    for line in sys.stdin:
        match _command(line):
            case {"say": "create", "queries": queries}:
                program.create(queries)
            case {"say": "drop", "names": names}:
                program.drop(names)
            case {"say": "report"}:
                program.report()
            case {"say": "stop"}:
                return
            case None:
                pass
            case other:
                voice.fail(f"no such command: {other}")


def main() -> None:
    """Take an order from standard input and follow it until `stop` or the end of the input."""
    # The JVM inherits standard output and prints rows to it: it gets a pipe, the driver keeps the real one.
    voice, (reading, writing) = Voice(os.dup(1)), os.pipe()
    os.dup2(writing, 1)
    os.close(writing)
    order = _command(sys.stdin.readline())
    if order is None or order.get("say") != "order":
        voice.fail("the first line is no order")
    try:
        voice.session = session = Session(order)
    except Exception as error:
        voice.fail(root_cause(str(error)))
    program = Program(order, voice, session)
    for work in (program.watch, program.hand_over, lambda: program.rows(reading)):
        threading.Thread(target=_guarded, args=(work, voice), daemon=True).start()
    voice.say("ready")
    _guarded(lambda: _serve(program, voice), voice)
    voice.end(0)


def _guarded(work: Callable[[], None], voice: Voice) -> None:
    try:
        work()
    except Exception as error:
        # If the JVM has ended, its last words are on their way, and say more than what is seen from here.
        time.sleep(_LAST_WORDS)
        voice.fail(root_cause(str(error)) or type(error).__name__)


if __name__ == "__main__":
    main()
