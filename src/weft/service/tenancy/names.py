"""Names of queries in the engine: the tenant's prefix, and numbers for queries that are created without a name."""

from __future__ import annotations

import re
from itertools import count

from weft.engine.catalog import Catalog
from weft.service.tenancy.tenants import Tenant

_GIVEN = re.compile(r"q(\d+)")
"""The names of queries that are created without a name."""


class Names:
    """The numbering of each tenant's unnamed queries; not thread-safe."""

    def __init__(self) -> None:
        self._numbers: dict[str, count[int]] = {}

    def full(self, catalog: Catalog, tenant: Tenant, name: str | None) -> str:
        """Return the engine's name for a query; without `name`, the query gets the next free number of its tenant."""
        if name is not None:
            return tenant.full(name)
        if tenant.name not in self._numbers:
            self._numbers[tenant.name] = count(self._largest(catalog, tenant) + 1)
        taken = catalog.names()
        return next(full for n in self._numbers[tenant.name] if (full := tenant.full(f"q{n}")) not in taken)

    def _largest(self, catalog: Catalog, tenant: Tenant) -> int:
        local_names = (tenant.local(name) for name in catalog.names_ever(tenant.prefix) if tenant.sees(name))
        return max((int(match[1]) for name in local_names if (match := _GIVEN.fullmatch(name))), default=0)
