"""Logs of the service: a line of JSON each, with the fields that were given."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, TextIO

from weft.errors import hide

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info is not None:
            fields["trace"] = self.formatException(record.exc_info)
        # Before it is JSON, where a secret may look different: traces have errors of Spark's in them as they were.
        shown = {name: hide(value) if isinstance(value, str) else value for name, value in fields.items()}
        return json.dumps(shown, default=lambda value: hide(str(value)), ensure_ascii=False)


def log_to(stream: TextIO) -> None:
    """Send what weft and the server log to a stream; requests are not logged, so no token can be."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name, level in (("weft", logging.INFO), ("uvicorn", logging.WARNING), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    logging.getLogger("asyncio").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Not that a client has closed its connection, which asyncio says for every write after it."""
    return not record.getMessage().startswith("socket.send() raised exception")
