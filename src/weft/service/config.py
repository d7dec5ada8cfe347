"""The configuration file `weft.toml` as values. An unknown key is an error that names the key."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from weft.errors import InvalidSetting, WeftError
from weft.plan.paths import has_scheme
from weft.plan.stream import Format
from weft.service.tenancy.secrets import is_reference, references
from weft.sql import parse_duration

_LARGEST_TOKEN = 1024
_SMALLEST_TOKEN = 8


def _local(value: Any) -> Any:
    """Refuse a path with a scheme, before `Path` turns "s3a://bucket" into the local directory "s3a:/bucket"."""
    if isinstance(value, str | Path) and has_scheme(str(value)):
        raise ValueError("it has a scheme, but only local paths work here: mount what is elsewhere")
    return value


def _duration(value: str) -> str:
    try:
        positive = parse_duration(value).total_seconds() > 0
    except WeftError as error:
        raise ValueError(error.message) from None
    if not positive:
        raise ValueError("it must be longer than nothing")
    return value


def _reference(value: str) -> str:
    if not is_reference(value):
        raise ValueError("give env:NAME or file:/path")
    return value


Count = Annotated[int, Field(ge=1)]
LocalPath = Annotated[Path, BeforeValidator(_local)]
Duration = Annotated[str, AfterValidator(_duration)]
Reference = Annotated[str, AfterValidator(_reference)]
TenantName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$")]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ServerSection(_Section):
    """The section `[server]`: the address, the directory of sinks, and what streams declared over HTTP may read."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    sinks: LocalPath | None = None
    inputs: tuple[LocalPath, ...] = ()
    addresses: tuple[str, ...] = ()
    secrets: tuple[Reference, ...] = ()
    connections: Count = 512
    stop_timeout: Duration = "30 seconds"
    read_limit: Duration = "20 seconds"


class EngineSection(_Section):
    """The section `[engine]`: the arguments of `weft.Engine`."""

    path: LocalPath
    trigger: str = "1 second"
    partitions: Count | None = None
    keep_results: str = "24 hours"
    keep_bytes: str | int = "auto"
    sink_backlog: str | int = "10 GB"
    sink_patience: str = "24 hours"
    batch_limit: Duration = "10 minutes"
    read_limit: Duration = "60 seconds"


class SparkSection(_Section):
    """The section `[spark]`: the master, the settings, the log file, and the environment variables that Spark's
    processes inherit although they look like secrets."""

    master: str = ""
    log: Path | None = None
    settings: dict[str, str] = Field(default_factory=dict)
    pass_env: tuple[str, ...] = ()


class StreamSpec(_Section):
    """A stream as in the file and as in `POST /v1/streams`."""

    name: str
    format: str = "parquet"
    path: str | None = None
    schema_: str | None = Field(default=None, alias="schema")
    time: str
    lateness: str = "0 seconds"
    retain: str | None = None
    idle_timeout: str = "5 minutes"
    max_ahead: str = "1 hour"
    max_files_per_batch: Count | None = None
    on_bad_file: str = "quarantine"
    options: dict[str, str] = Field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        """Whether weft itself decodes the format."""
        return self.format in tuple(Format)


class Limits(_Section):
    """The limits of a tenant; None means unlimited."""

    live_queries: Count | None = None
    creates_per_minute: Count | None = None
    result_rows_per_second: Count | None = None
    what_if_per_minute: Count | None = None
    connections: Count | None = None
    state_bytes: Count | None = None
    matches_per_batch: Count | None = None

    def over(self, general: Limits) -> Limits:
        """Return these limits, with those of `general` where these are None."""
        return general.model_copy(update=self.model_dump(exclude_none=True))


class TenantSection(Limits):
    """The section `[[tenants]]`: a tenant, whose token is given here, in a file or in the environment."""

    name: TenantName
    token: SecretStr | None = None
    token_file: Path | None = None
    token_env: str | None = None
    admin: bool = False
    streams: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if sum(given is not None for given in (self.token, self.token_file, self.token_env)) != 1:
            raise ValueError(f'tenant "{self.name}" needs one of token, token_file and token_env')
        return self

    @property
    def own_limits(self) -> Limits:
        """The limits that are set for this tenant."""
        return Limits(**{name: getattr(self, name) for name in Limits.model_fields})


class Config(_Section):
    """The complete configuration, with absolute paths."""

    server: ServerSection = ServerSection()
    engine: EngineSection
    spark: SparkSection = SparkSection()
    streams: tuple[StreamSpec, ...] = ()
    limits: Limits = Limits()
    tenants: tuple[TenantSection, ...] = ()

    @property
    def secret_variables(self) -> tuple[str, ...]:
        """The environment variables that Spark's processes never inherit: tokens, and secrets of streams."""
        named = [*self.server.secrets, *(value for stream in self.streams for value in references(stream.options))]
        tokens = [tenant.token_env for tenant in self.tenants if tenant.token_env is not None]
        return (*tokens, *(reference.removeprefix("env:") for reference in named if reference.startswith("env:")))

    @model_validator(mode="after")
    def _check(self) -> Self:
        for kind, names in (("stream", [s.name for s in self.streams]), ("tenant", [t.name for t in self.tenants])):
            duplicates = sorted({name for name in names if names.count(name) > 1})
            if duplicates:
                raise ValueError(f'{kind} "{duplicates[0]}" is there twice')
        remote = next((s.name for s in self.streams if s.is_own and s.path is not None and has_scheme(s.path)), None)
        if remote is not None:
            raise ValueError(f'stream "{remote}": its path has a scheme, but weft reads local paths only: mount it')
        if not self.tenants and not is_loopback(self.server.host):
            raise ValueError(
                f'server.host is "{self.server.host}", which others can reach, but there are no tenants: '
                "add [[tenants]] with tokens, or bind to 127.0.0.1"
            )
        return self


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_config(path: Path, **server: Any) -> Config:
    """Return the configuration of a file; `server` overrides settings of `[server]`. Raises InvalidSetting."""
    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSetting(f'configuration "{path}" cannot be read: {error.strerror}') from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f'configuration "{path}" is not TOML: {error}') from error
    overrides = {name: setting for name, setting in server.items() if setting is not None}
    if overrides:
        value = value | {"server": {**value.get("server", {}), **overrides}}
    return _absolute(to_config(value, str(path)), path.absolute().parent)


def to_config(value: Any, source: str) -> Config:
    """Return the configuration of a parsed file. Raises InvalidSetting with the key but never the value of a setting,
    which may be a token."""
    try:
        return Config.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise InvalidSetting(
            f'configuration "{source}": {place + ": " if place else ""}{message}',
            hint="docs/reference/settings.md has all settings.",
        ) from None


def _absolute(config: Config, folder: Path) -> Config:
    """Return the configuration with absolute paths; relative paths are relative to `folder`."""

    def at(path: Path | None) -> Path | None:
        return None if path is None else folder / path.expanduser()

    streams = tuple(
        stream
        if stream.path is None or has_scheme(stream.path)
        else stream.model_copy(update={"path": str(at(Path(stream.path)))})
        for stream in config.streams
    )
    tenants = tuple(tenant.model_copy(update={"token_file": at(tenant.token_file)}) for tenant in config.tenants)
    return config.model_copy(
        update={
            "server": config.server.model_copy(
                update={"sinks": at(config.server.sinks), "inputs": tuple(map(at, config.server.inputs))}
            ),
            "engine": config.engine.model_copy(update={"path": at(config.engine.path)}),
            "spark": config.spark.model_copy(update={"log": at(config.spark.log)}),
            "streams": streams,
            "tenants": tenants,
        }
    )


def seconds_of(duration: str) -> float:
    """Return a duration of the configuration in seconds."""
    return parse_duration(duration).total_seconds()


def token_of(tenant: TenantSection) -> str:
    """Return a tenant's token from the configuration, the environment or a file; raises InvalidSetting."""
    if tenant.token is not None:
        token = tenant.token.get_secret_value()
    elif tenant.token_env is not None:
        token = os.environ.get(tenant.token_env, "")
        if not token:
            raise InvalidSetting(f'tenant "{tenant.name}": the environment has no {tenant.token_env}')
    else:
        assert tenant.token_file is not None, "a tenant has a token"
        try:
            token = tenant.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise InvalidSetting(f'tenant "{tenant.name}": token_file cannot be read: {error.strerror}') from error
    if not _SMALLEST_TOKEN <= len(token) <= _LARGEST_TOKEN or not token.isascii() or not token.isprintable():
        raise InvalidSetting(
            f'tenant "{tenant.name}": its token is not one',
            hint=f"Use {_SMALLEST_TOKEN} to {_LARGEST_TOKEN} printable ASCII characters (openssl rand -hex 32).",
        )
    return token
