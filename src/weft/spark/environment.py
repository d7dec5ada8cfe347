"""The environment variables of Spark's processes, without the secrets of this process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from weft.errors import hide

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW(OR)?D|PASSPHRASE|CREDENTIAL|BEARER|APIKEY|COOKIE|(^|_)KEYS?(_|$)|_(PWD|PASS|PAT|DSN)$",
    re.IGNORECASE,
)
_PASSWORD_IN_ADDRESS = re.compile(r"(?P<scheme>\w://)[^/\s:@]*:[^/\s@]+@")
_NAMED_SECRET = re.compile(
    r"(?P<name>[\w.\-]*(?:token|secret|passw(?:or)?d|passphrase|credential|api[._-]?key|access[._-]?key)[\w.\-]*"
    r"[\"']?\s*[=:]\s*)(?:bearer\s+)?[^\s,;&)}\]]+",
    re.IGNORECASE,
)
_SHORTEST_SECRET = 6
"""Shorter values are not redacted, because they may occur in a text by chance."""


def is_secret_variable(name: str, value: str) -> bool:
    """Return whether a variable looks like a secret, by its name or because its value is a URL with a password."""
    return bool(_SECRET_NAME.search(name) or _PASSWORD_IN_ADDRESS.search(value))


def child_environment(
    environment: Mapping[str, str], *, secrets: Iterable[str] = (), pass_env: Iterable[str] = ()
) -> dict[str, str]:
    """Return the variables that Spark's processes inherit.

    Variables named in `secrets` are always removed. Variables that look like secrets are removed unless `pass_env`
    contains their name or a matching pattern such as "AWS_*": Spark may need some to access its sources.
    """
    never, patterns = frozenset(secrets), tuple(pass_env)
    return {
        name: value
        for name, value in environment.items()
        if name not in never
        and (any(fnmatchcase(name, pattern) for pattern in patterns) or not is_secret_variable(name, value))
    }


def redacted(text: str, environment: Mapping[str, str]) -> str:
    """Return a text without secrets: values of variables whose names look secret, passwords in URLs, values as in
    `password=…`, and the values that `errors.hide` knows."""
    for name, value in environment.items():
        if len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name):
            text = text.replace(value, "***")
    return _NAMED_SECRET.sub(r"\g<name>***", _PASSWORD_IN_ADDRESS.sub(r"\g<scheme>***@", hide(text)))
