"""Names of queries in the engine: the tenant's name before each, and numbers for those that were given none."""

from __future__ import annotations

import re
from itertools import count

from weft.engine.core import Core
from weft.service.tenancy.tenants import Tenant

_GIVEN = re.compile(r"q(\d+)")
"""Names of queries that were given none."""


class Names:
    """Numbers the queries of each tenant that have no name; to be used by one thread at a time."""

    def __init__(self) -> None:
        self._numbers: dict[str, count[int]] = {}

    def full(self, core: Core, tenant: Tenant, name: str | None) -> str:
        """The name of a query in the engine; without a name it gets the next number of its tenant."""
        if name is not None:
            return tenant.full(name)
        if tenant.name not in self._numbers:
            self._numbers[tenant.name] = count(self._largest(core, tenant) + 1)
        taken = core.roster.names
        return next(full for n in self._numbers[tenant.name] if (full := tenant.full(f"q{n}")) not in taken)

    def _largest(self, core: Core, tenant: Tenant) -> int:
        with core.lock:
            used = [*core.roster.names, *(record.name for record in core.roster.records.lately.values())]
        used += core.roster.ended.names(tenant.prefix)
        mine = (tenant.local(each) for each in used if tenant.sees(each))
        return max((int(found[1]) for each in mine if (found := _GIVEN.fullmatch(each))), default=0)
