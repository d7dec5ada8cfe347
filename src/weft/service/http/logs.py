"""Logs of the service: one JSON object per line, with the extra fields of the record."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, TextIO

from weft.errors import hide

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """A formatter that writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for a record."""
        fields: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info is not None:
            fields["trace"] = self.formatException(record.exc_info)
        # Hide secrets before encoding, which may escape some of their characters. Traces quote Spark's errors verbatim.
        shown = {name: hide(value) if isinstance(value, str) else value for name, value in fields.items()}
        return json.dumps(shown, default=lambda value: hide(str(value)), ensure_ascii=False)


def log_to(stream: TextIO) -> None:
    """Send the logs of weft, uvicorn and asyncio to a stream. Requests are not logged, so no token can be."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name, level in (("weft", logging.INFO), ("uvicorn", logging.WARNING), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    logging.getLogger("asyncio").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for asyncio's warning about each write to a connection that the client has closed."""
    return not record.getMessage().startswith("socket.send() raised exception")
