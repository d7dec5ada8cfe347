"""Where figures are shown: a live screen in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from weft.demo.observe import Figures
from weft.demo.view import Screen, progress_line

_LINE_EVERY_SECONDS = 5.0


class Display:
    """A terminal or a log, told apart once."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = console.is_terminal and not console.is_dumb_terminal
        self._last_line = 0.0
        self.address = ""
        """Where the dashboard is, once it is there."""

    @property
    def width(self) -> int:
        """Columns of text."""
        return self.console.size.width

    @contextmanager
    def stage(self, text: str) -> Iterator[None]:
        """Something that takes a while is going on."""
        if self._live:
            with self.console.status(text):
                yield
        else:
            self.line(f"{text} …")
            yield

    @contextmanager
    def live(self) -> Iterator[Callable[[Figures], None]]:
        """A function that shows figures."""
        if not self._live:
            yield self._show_line
            return
        with Live(console=self.console, screen=True, auto_refresh=False) as live:
            yield lambda figures: live.update(Screen(figures, self.address), refresh=True)

    def line(self, text: str) -> None:
        """A line of text as it is."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _show_line(self, figures: Figures) -> None:
        if time.monotonic() - self._last_line >= _LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            self.line(progress_line(figures))
