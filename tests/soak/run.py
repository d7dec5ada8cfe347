"""One soak of a service from its first start to the comparison of its rows."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests.soak.check import Compared, compare
from tests.soak.clients import Churn, Follower, Poller, Visitor, Worker, create_residents
from tests.soak.core import open_elsewhere
from tests.soak.measures import state_sizes
from tests.soak.queries import RESIDENTS
from tests.soak.sampler import Sampler, read_until, scan_log
from tests.soak.series import Samples
from tests.soak.site import ADMIN, Caller, Incidents, Site, SoakService
from tests.soak.streams import Feeder
from tests.soak.troubles import Failing, Sinks, Streams

_DRAIN = 180.0
"""Seconds in which the last rows are read and followed, if anything works."""
_PAUSE = 5.0
EMPTY = "empty"
"""When the service was started for the first time."""
_LIVING = 20
"""Guests that are live at a time."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a soak is like."""

    minutes: float
    creates_per_second: float = 3.0
    rows_per_second: int = 50
    """Of each stream."""
    restarts: tuple[float, ...] = (0.1, 1.0)
    """When the service is restarted, as shares of the run; the first and the last are compared."""
    tries: int = 2
    """Restarts each time, of which the shortest counts."""
    idle: tuple[float, float] = (0.5, 0.6)
    """From when to when nothing is written, while queries come and go."""
    seed: int = 1

    @property
    def heap_every(self) -> float:
        """Seconds between two full garbage collections of Java, which are forced to measure its heap."""
        return max(15.0, self.minutes * 2)

    @property
    def interval(self) -> float:
        """Seconds between two samples."""
        return min(5.0, max(1.0, self.minutes * 60 / 360))


@dataclass(slots=True)
class Outcome:
    """What was found."""

    samples: Samples
    incidents: Incidents
    starts: dict[str, list[float]] = field(default_factory=dict)
    """Seconds until the service was ready, by when that was."""
    opens: dict[str, list[float]] = field(default_factory=dict)
    """Seconds that a new process took to open a copy of the state directory, by when that was."""
    idle: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    """Files and bytes of the state directory before and after the time without input."""
    stops: list[float] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class ServiceEnded(Exception):
    """The service does not run though it should."""


class Soak:
    """A service, those who use it, and those who watch it."""

    def __init__(self, folder: Path, options: Options) -> None:
        self._options = options
        self._service = SoakService(folder)
        self._site = Site(Incidents())
        self._feeder = Feeder(folder / "in", rows_per_second=options.rows_per_second, seed=options.seed)
        self._churn = Churn(
            self._site,
            out=folder / "out",
            rate=options.creates_per_second,
            living=_LIVING,
            seed=options.seed,
        )
        self._sampler = Sampler(
            self._site,
            self._service,
            feeder=self._feeder,
            churn=self._churn,
            interval=options.interval,
            heap_every=options.heap_every,
        )
        self._followers = [Follower(self._site, each.tenant, each.name) for each in RESIDENTS if each.followed]
        self._pollers = [Poller(self._site, each.tenant, each.name) for each in RESIDENTS if each.polled]
        self._visitor = Visitor(self._site, options.seed)
        self._troubles = (
            Streams(self._site, folder / "in"),
            Failing(self._site),
            Sinks(self._site, folder / "out"),
        )
        self._paused_at = 0.0
        self._outcome = Outcome(self._sampler.samples, self._site.incidents)

    def run(self) -> Outcome:
        """The whole soak; if the service ends before it should, what was found until then."""
        workers: list[Worker] = [
            *self._followers,
            *self._pollers,
            *self._troubles,
            self._visitor,
            self._churn,
            self._sampler,
        ]
        self._start(EMPTY)
        try:
            create_residents(self._site)
            self._site.incidents.began = time.monotonic()
            self._feeder.start()
            for worker in workers:
                worker.start()
            self._load()
            self._drain()
            self._end(workers)
            self._compare()
        except (ServiceEnded, AssertionError) as error:  # the latter if it cannot be started again
            self._site.closing()
            self._site.incidents.note(f"the service has ended by itself, or does not start: {str(error)[-250:]}")
        finally:
            if self._service.running:
                self._service.stop()
        self._sum_up()
        return self._outcome

    def _load(self) -> None:
        """The time under load, without that of restarts; nothing is measured after the last of them."""
        began, restarting = time.monotonic(), 0.0
        options, pauses = self._options, dict(zip(self._options.idle, (True, False), strict=True))
        for share in sorted((*options.restarts, *options.idle)):
            self._wait_until(began + restarting + share * options.minutes * 60)
            stopped = time.monotonic()
            if share in pauses:
                self._idle(pauses[share])
                restarting += time.monotonic() - stopped  # the pause begins when all is read
                continue
            self._sampler.paused = True
            self._restart(f"{share:.0%}")
            self._sampler.paused = share == self._options.restarts[-1]
            restarting += time.monotonic() - stopped

    def _idle(self, begins: bool) -> None:
        """There is no input from here on, or there is some again; all that was written before is read first."""
        if begins:
            self._paused_at = time.monotonic()
            self._feeder.paused = self._site.has_no_input = True
            self._await_rows()
        files, size = state_sizes(self._service.folder / "state")["state"]
        for name, value in (("files", files), ("bytes", size)):
            self._outcome.idle.setdefault(name, ([], []))[not begins].append(float(value))
        if not begins:
            # What is kept has to fill up again before the load is the same as before.
            began, now, origin = self._paused_at, time.monotonic(), self._site.incidents.began
            self._sampler.samples.pauses.append((began - origin, now + (now - began) - origin))
            self._feeder.paused = self._site.has_no_input = False

    # ---- the service

    def _start(self, when: str) -> None:
        began = time.monotonic()
        self._service.start()
        self._outcome.starts.setdefault(when, []).append(time.monotonic() - began)
        self._site.opened(self._service.address)
        print(f"the service is ready after {self._outcome.starts[when][-1]:.1f} s ({when})", flush=True)

    def _stop(self) -> None:
        self._site.closing()
        began = time.monotonic()
        status = self._service.stop()
        self._outcome.stops.append(time.monotonic() - began)
        if status != 0:
            self._site.incidents.note(f"the service ended with status {status}")

    def _restart(self, when: str) -> None:
        for _ in range(self._options.tries):
            self._stop()
            self._sampler.samples.restart(time.monotonic() - self._site.incidents.began)
            opened = open_elsewhere(self._service.folder / "state")["reopen.seconds"]
            self._outcome.opens.setdefault(when, []).append(opened)
            self._start(when)
            time.sleep(_PAUSE)  # clients come back, a batch is run

    def _wait_until(self, moment: float) -> None:
        while time.monotonic() < moment:
            if not self._service.running:
                raise ServiceEnded(self._service.log())
            time.sleep(min(1.0, max(0.0, moment - time.monotonic())))

    # ---- the end

    def _drain(self) -> None:
        """Everything that was written is read, and has reached those who follow."""
        for worker in (self._churn, *self._troubles):
            worker.stop()
        for worker in (self._churn, *self._troubles):
            worker.join()
        self._feeder.stop()
        deadline = self._await_rows()
        before = None
        while before != (before := [each.rows for each in self._followers]) and time.monotonic() < deadline:
            time.sleep(_PAUSE)

    def _await_rows(self) -> float:
        """Wait until all rows that were written are read; until when the rest of it may take."""
        newest, deadline = self._feeder.newest(), time.monotonic() + _DRAIN
        caller = Caller(self._site, ADMIN)
        while time.monotonic() < deadline:
            answer = caller.ask("GET", "/v1/streams")
            reached = {} if answer is None else read_until(answer)
            if all(reached.get(name, 0) >= time_ for name, time_ in newest.items()):
                break
            time.sleep(0.5)
        else:
            self._site.incidents.note(f"not all rows were read within {_DRAIN:.0f} s")
        caller.close()
        return deadline

    def _end(self, workers: list[Worker]) -> None:
        for worker in workers:
            worker.stop()
        self._visitor.join()
        for worker in (*self._pollers, self._sampler):
            worker.join()
        self._stop()
        for follower in (*self._followers, *self._churn.followers.values()):
            follower.stop()
            follower.join(10.0)

    def _compare(self) -> None:
        followed = {each.query: each.rows for each in self._followers}
        self._outcome.compared = compare(self._feeder.tables(), self._service.folder / "out", followed)

    def _sum_up(self) -> None:
        outcome, folder = self._outcome, self._service.folder
        outcome.notes += scan_log(folder / self._service.log_name, outcome.incidents)
        seconds = self._sampler.samples.rows[-1]["at"] if self._sampler.samples.rows else 1.0
        outcome.facts = {
            "input": f"4 streams (Parquet, JSON, CSV, Arrow), {self._options.rows_per_second} rows a second each; "
            f"{self._feeder.rows:,} rows in {self._feeder.files:,} files, removed once they are read",
            "queries": f"{len(RESIDENTS)} that stay, {_LIVING} guests at a time; {self._churn.created:,} created, "
            f"{self._churn.dropped:,} dropped ({self._churn.created / seconds:.1f} creates a second)",
            "clients": f"3 tenants, {len(self._followers)} followers of residents, one of every seventh guest, "
            f"{len(self._pollers)} pollers, one that looks at everything",
            "batches": f"{self._sampler.batches:,}",
            "trouble": f"{self._troubles[0].rounds} streams declared and dropped, {self._troubles[1].rounds} queries "
            f"and {self._troubles[2].rounds} sinks that failed; {self._visitor.looked_back} ended queries were read",
            "time without input": " to ".join(f"{share:.0%}" for share in self._options.idle),
            "opening a copy of the state": "; ".join(
                f"{when}: {_seconds(each)}" for when, each in outcome.opens.items()
            ),
            "restarts": "; ".join(f"{when}: {_seconds(each)}" for when, each in outcome.starts.items()),
            "stops": _seconds(outcome.stops),
        }

    def save_logs(self, target: Path) -> None:
        """Keep what the service and Spark have printed."""
        shutil.copytree(self._service.folder / "logs", target, dirs_exist_ok=True)


def _seconds(each: list[float]) -> str:
    return ", ".join(f"{one:.1f} s" for one in each) + (f" (median {median(each):.1f} s)" if len(each) > 2 else "")
