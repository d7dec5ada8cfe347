"""Errors of queries and sinks as tenants may read them: with the reason, but without paths of the machine.

The full text is in the log of the service, and administrators see it.
"""

from __future__ import annotations

import re

from weft.engine import Query
from weft.service.tenancy.tenants import Tenant

_BATCH = "it makes the batch fail"
_MORE = "An administrator can see more."
_PATH = re.compile(r"(?<![\w.])(?:file:)?/+(?:[^\s/\"'`,;:()\[\]]+/)+[^\s\"'`,;:()\[\]]*")
"""An absolute path of at least two parts. A single slash is more often a division."""
_CODE = re.compile(r"\[(?P<code>[A-Za-z][A-Za-z_.]*)(?: \d+)?\](?: (?P<words>[A-Z][a-z][a-z ]*[a-z]))?")
"""An error code of weft or Spark, or one of the system such as `[Errno 13] Permission denied`."""
_CLASS = re.compile(r"^(?:[\w$]+\.)*(?P<name>[A-Z][\w$]*): ")


def query_error(tenant: Tenant, error: str) -> str:
    """Return the error of a failed query, as the tenant may read it."""
    if tenant.admin or not error:
        return error
    if error.startswith(_BATCH):
        return f"{_BATCH}{_kind(error[len(_BATCH) + 2 :])}. {_MORE}"
    return _PATH.sub("(a path)", error)


def sink_error(tenant: Tenant, query: Query) -> str:
    """Return why a query's sink gets no rows now, as the tenant may read it.

    Errors of a sink that retries come from writing files, so only their kind is shown. Other errors are weft's own.
    """
    error = query.sink_error
    if tenant.admin or not error:
        return error
    if query.sink_state == "retrying":
        return f"its rows could not be written{_kind(error)}; it is tried again. {_MORE}"
    return _PATH.sub("(a path)", error)


def _kind(error: str) -> str:
    """Return the code or class that an error text names, in brackets; empty if it names none."""
    if match := _CODE.search(error):
        return f" ({match['words'] or match['code']})"
    match = _CLASS.search(error)
    return "" if match is None else f" ({match['name']})"
