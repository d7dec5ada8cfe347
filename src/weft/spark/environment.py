"""The environment of Spark's processes: this process may hold secrets that are none of their business."""

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
"""A shorter value is a word that may be anywhere in a text by chance."""


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable holds something that nobody else should know, by its name or as a password in an address."""
    return bool(_SECRET_NAME.search(name) or _PASSWORD_IN_ADDRESS.search(value))


def child_environment(
    environment: Mapping[str, str], *, secrets: Iterable[str] = (), pass_env: Iterable[str] = ()
) -> dict[str, str]:
    """The variables that Spark's processes inherit.

    Those named in `secrets` are left out in any case. Those that look like secrets are left out unless `pass_env` has
    their name, or a pattern for it such as "AWS_*": Spark may need some to reach its sources.
    """
    never, patterns = frozenset(secrets), tuple(pass_env)
    return {
        name: value
        for name, value in environment.items()
        if name not in never
        and (any(fnmatchcase(name, pattern) for pattern in patterns) or not looks_secret(name, value))
    }


def redacted(text: str, environment: Mapping[str, str]) -> str:
    """A text for users without secrets: values of variables that look secret, passwords in addresses, `password=…`, and
    whatever else is kept secret."""
    for name, value in environment.items():
        if len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name):
            text = text.replace(value, "***")
    return _NAMED_SECRET.sub(r"\g<name>***", _PASSWORD_IN_ADDRESS.sub(r"\g<scheme>***@", hide(text)))
