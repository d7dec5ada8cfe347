"""The end of the process in bounded time."""

from __future__ import annotations

import queue
import subprocess
import sys

from weft.service.shutdown import HARD, ExitDeadline

WITHIN = 60.0


def test_the_process_is_ended_after_the_time() -> None:
    done: queue.Queue[object] = queue.Queue()
    ending = ExitDeadline(last=lambda: done.put("last"), leave=done.put)
    ending.within(0.01, reason="it did not stop")
    assert [done.get(timeout=WITHIN), done.get(timeout=WITHIN)] == ["last", HARD]


def test_a_later_word_counts() -> None:
    done: queue.Queue[object] = queue.Queue()
    ending = ExitDeadline(leave=done.put)
    ending.within(3600)
    ending.within(0.01, status=0)
    assert done.get(timeout=WITHIN) == 0


def test_what_is_done_last_may_fail() -> None:
    done: queue.Queue[object] = queue.Queue()
    ExitDeadline(last=lambda: 1 / 0, leave=done.put).within(0, status=3)
    assert done.get(timeout=WITHIN) == 3


def test_threads_that_never_end_do_not_hold_it_up() -> None:
    """As it was: a read behind the service kept the process for as long as the read took (N9)."""
    text = (
        "import threading, time\n"
        "from weft.service.shutdown import ExitDeadline\n"
        "threading.Thread(target=lambda: time.sleep(3600)).start()\n"
        "ExitDeadline().within(0.1, status=7)\n"
    )
    assert subprocess.run([sys.executable, "-c", text], timeout=WITHIN, check=False).returncode == 7
