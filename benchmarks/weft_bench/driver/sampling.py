"""Samples of how a cell goes, about one per second."""

from __future__ import annotations

from weft_bench.driver.heard import Heard
from weft_bench.driver.latency import median_latency
from weft_bench.driver.plan import Progress
from weft_bench.driver.watch import Watch
from weft_bench.record import Sample


class Sampler:
    """Takes samples; `at` is when the last was taken, `began` when the cell began, in seconds since 1970."""

    def __init__(self, heard: Heard, watch: Watch, began: float) -> None:
        self.began = began
        self.at = began
        self.samples: list[Sample] = []
        self._heard = heard
        self._watch = watch
        self._generated = 0
        self._passed = 0
        self._delivered = 0

    def take(self, now: float) -> Sample:
        """A sample of now."""
        usage = self._watch.reading()
        with self._heard.changed:
            feed = self._heard.feed
            generated, passed, queries = feed.generated, feed.passed, len(self._heard.live)
            new = self._heard.deliveries[self._delivered :]
            latency = median_latency(new, feed)
        seconds = max(now - self.at, 1e-3)
        sample = Sample(
            at=now - self.began,
            rate=(generated - self._generated) / seconds,
            # A reader that is new may be less far than the slowest was before.
            pulled=max(passed - self._passed, 0) / seconds,
            queries=queries,
            latency=latency,
            waiting=generated - passed,
            memory=usage.memory,
            cores=usage.cores,
        )
        self.at, self._generated, self._passed = now, generated, passed
        self._delivered += len(new)
        self.samples.append(sample)
        return sample


def to_progress(sample: Sample, *, system: str, phase: str, share: float) -> Progress:
    """A sample as it is told to whoever looks on."""
    return Progress(
        system=system,
        phase=phase,
        share=share,
        rate=sample.rate,
        pulled=sample.pulled,
        waiting=sample.waiting,
        queries=sample.queries,
        latency=sample.latency,
        memory=sample.memory,
    )
