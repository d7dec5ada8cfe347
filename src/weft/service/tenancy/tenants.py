"""Who asks: tokens, what a tenant sees, and what it is called there.

A query's name in the engine begins with its tenant's, so whose it is needs no record of its own and survives with it.
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
    """Somebody with a token; without tenants there is one that may do everything."""

    name: str
    admin: bool
    limits: Limits = field(default_factory=Limits)
    streams: frozenset[str] | None = None
    """Those it may read; None: all of them."""
    key: bytes = field(default=b"", repr=False)
    """Makes ids for it that mean nothing to others."""

    def may_read(self, stream: str) -> bool:
        """Whether a stream is there for it."""
        return self.admin or self.streams is None or stream in self.streams

    def granted(self, streams: Mapping[str, _Value]) -> dict[str, _Value]:
        """What is there for it, of things by the name of their stream."""
        return {name: value for name, value in streams.items() if self.may_read(name)}

    def hidden(self, text: str) -> str:
        """An id for something whose own id is made of its text: nobody can tell from it what the text is."""
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()[:12]

    @property
    def prefix(self) -> str:
        """What the names of its queries begin with in the engine."""
        return "" if self.admin else self.name + _SEPARATOR

    def sees(self, full_name: str) -> bool:
        """Whether a query of the engine is there for it."""
        return full_name.startswith(self.prefix)

    def local(self, full_name: str) -> str:
        """What a query it sees is called there."""
        return full_name[len(self.prefix) :]

    def full(self, local_name: str) -> str:
        """What a query is called in the engine."""
        return self.prefix + local_name


EVERYBODY = Tenant("", admin=True)


class Tenants:
    """All of them; tokens are kept as digests only."""

    def __init__(self, tokens: Mapping[str, str], tenants: Iterable[Tenant]) -> None:
        self._tenants = {tenant.name: tenant for tenant in tenants}
        self._digests = [(_digest(token), self._tenants[name]) for name, token in tokens.items()]
        if len({digest for digest, _ in self._digests}) < len(self._digests):
            raise InvalidSetting("two tenants have the same token", hint="Give each a token of its own.")

    def __iter__(self) -> Iterator[Tenant]:
        return iter(self._tenants.values())

    @property
    def open(self) -> bool:
        """Whether everybody may do everything."""
        return not self._digests

    def authenticate(self, authorization: str | None) -> Tenant:
        """Who sent this header; raises Unauthorized. Takes as long whatever token it is, right or wrong."""
        if self.open:
            return EVERYBODY
        given = authorization or ""
        token = given[len(_BEARER) :].strip() if given.lower().startswith(_BEARER) else ""
        digest, found = _digest(token), None
        for known, tenant in self._digests:
            if hmac.compare_digest(known, digest):
                found = tenant
        if found is None or not token:
            raise Unauthorized(
                "the token is not known" if token else "a token is needed",
                hint="Send the header Authorization: Bearer <token>.",
            )
        return found

    def owner(self, full_name: str) -> str:
        """The name of the tenant whose query this is; empty if it is nobody's."""
        name, separator, _ = full_name.partition(_SEPARATOR)
        return name if separator and name in self._tenants and not self._tenants[name].admin else ""


def read_tenants(config: Config) -> Tenants:
    """The tenants of a configuration, with their tokens; raises InvalidSetting.

    Tokens in the environment are then not there any more: Spark's processes, which run the queries of all tenants,
    would inherit them.
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
    """Raises Forbidden unless it is an administrator."""
    if not tenant.admin:
        raise Forbidden(f"only administrators may {what}", hint="Ask one, or use the token of one.")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
