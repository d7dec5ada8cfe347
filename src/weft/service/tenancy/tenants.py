"""Tenants: their tokens, what they may see, and the names of their queries.

A query's name in the engine begins with the name of its tenant, so ownership is stored with the query.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from weft.errors import Forbidden, InvalidSetting, Unauthorized
from weft.service.config import Config, Limits, token_of

_SEPARATOR = "."
_BEARER = "bearer "
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A user of the service. A service without tenants has `EVERYBODY`, who may do everything."""

    name: str
    admin: bool
    limits: Limits = field(default_factory=Limits)
    streams: frozenset[str] | None = None
    """The streams that the tenant may read; None means all."""
    key: bytes = field(default=b"", repr=False)
    """The secret key of `hidden`."""

    def may_read(self, stream: str) -> bool:
        """Return whether the tenant may read a stream."""
        return self.admin or self.streams is None or stream in self.streams

    def granted(self, streams: Mapping[str, _Value]) -> dict[str, _Value]:
        """Return the entries of `streams`, by stream name, that the tenant may read."""
        return {name: value for name, value in streams.items() if self.may_read(name)}

    def hidden(self, text: str) -> str:
        """Return an id for `text` that does not reveal the text and is different for every tenant."""
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()[:12]

    @property
    def prefix(self) -> str:
        """The prefix of the names of the tenant's queries in the engine; empty for an administrator, who sees all."""
        return "" if self.admin else self.name + _SEPARATOR

    def sees(self, full_name: str) -> bool:
        """Return whether the tenant sees the query of this name in the engine."""
        return full_name.startswith(self.prefix)

    def local(self, full_name: str) -> str:
        """Return the tenant's name for a query that it sees."""
        return full_name[len(self.prefix) :]

    def full(self, local_name: str) -> str:
        """Return the engine's name for a query of the tenant."""
        return self.prefix + local_name


EVERYBODY = Tenant("", admin=True)


class Tenants:
    """All tenants of a service. Tokens are kept as digests only."""

    def __init__(self, tokens: Mapping[str, str], tenants: Iterable[Tenant]) -> None:
        self._tenants = {tenant.name: tenant for tenant in tenants}
        self._digests = [(_digest(token), self._tenants[name]) for name, token in tokens.items()]
        if len({digest for digest, _ in self._digests}) < len(self._digests):
            raise InvalidSetting("two tenants have the same token", hint="Give each a token of its own.")

    def __iter__(self) -> Iterator[Tenant]:
        return iter(self._tenants.values())

    @property
    def open(self) -> bool:
        """Whether the service has no tenants, so that everybody may do everything."""
        return not self._digests

    def authenticate(self, authorization: str | None) -> Tenant:
        """Return the tenant of an Authorization header, in constant time for all tokens; raises Unauthorized."""
        if self.open:
            return EVERYBODY
        header = authorization or ""
        token = header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else ""
        digest, owner = _digest(token), None
        for known, tenant in self._digests:
            if hmac.compare_digest(known, digest):
                owner = tenant
        if owner is None or not token:
            raise Unauthorized(
                "the token is not known" if token else "a token is needed",
                hint="Send the header Authorization: Bearer <token>.",
            )
        return owner

    def owner(self, full_name: str) -> str:
        """Return the name of the tenant that owns a query; empty if no tenant or an administrator owns it."""
        name, separator, _ = full_name.partition(_SEPARATOR)
        return name if separator and name in self._tenants and not self._tenants[name].admin else ""


def read_tenants(config: Config) -> Tenants:
    """Return the tenants of a configuration, with their tokens; raises InvalidSetting.

    Removes tokens from the environment: Spark's processes, which run the queries of all tenants, would inherit them.
    """
    tokens = {section.name: token_of(section) for section in config.tenants}
    for section in config.tenants:
        if section.token_env is not None:
            os.environ.pop(section.token_env, None)
    tenants = [
        Tenant(
            section.name,
            section.admin,
            section.own_limits.over(config.limits),
            None if section.streams is None else frozenset(section.streams),
            _digest("operators of " + tokens[section.name]),
        )
        for section in config.tenants
    ]
    return Tenants(tokens, tenants)


def require_admin(tenant: Tenant, what: str) -> None:
    """Raise Forbidden unless the tenant is an administrator."""
    if not tenant.admin:
        raise Forbidden(f"only administrators may {what}", hint="Ask one, or use the token of one.")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
