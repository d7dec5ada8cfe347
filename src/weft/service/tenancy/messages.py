"""What a tenant is told about its queries that fail: why, but not where files of the machine are.

The whole text is in the service's log, and administrators are shown it.
"""

from __future__ import annotations

import re

from weft.engine import Query
from weft.service.tenancy.tenants import Tenant

_BATCH = "it makes the batch fail"
_MORE = "An administrator can see more."
_PATH = re.compile(r"(?<![\w.])(?:file:)?/+(?:[^\s/\"'`,;:()\[\]]+/)+[^\s\"'`,;:()\[\]]*")
"""An absolute path of at least two parts; a single slash is a division more often."""
_CODE = re.compile(r"\[(?P<code>[A-Za-z][A-Za-z_.]*)(?: \d+)?\](?: (?P<words>[A-Z][a-z][a-z ]*[a-z]))?")
"""A code of weft's or Spark's, or `[Errno 13] Permission denied` of the system's."""
_CLASS = re.compile(r"^(?:[\w$]+\.)*(?P<name>[A-Z][\w$]*): ")


def query_error(tenant: Tenant, error: str) -> str:
    """Why a query has failed, in words for a tenant."""
    if tenant.admin or not error:
        return error
    if error.startswith(_BATCH):
        return f"{_BATCH}{_kind(error[len(_BATCH) + 2 :])}. {_MORE}"
    return _PATH.sub("(a path)", error)


def sink_error(tenant: Tenant, query: Query) -> str:
    """Why a query's sink gets no rows now, in words for a tenant. Why it waits to be resumed, weft says itself;
    all else is said by whoever writes files."""
    error = query.sink_error
    if tenant.admin or not error:
        return error
    if query.sink_state == "retrying":
        return f"its rows could not be written{_kind(error)}; it is tried again. {_MORE}"
    return _PATH.sub("(a path)", error)


def _kind(error: str) -> str:
    """The class or code of an error, in brackets; nothing if it does not say."""
    if found := _CODE.search(error):
        return f" ({found['words'] or found['code']})"
    found = _CLASS.search(error)
    return "" if found is None else f" ({found['name']})"
