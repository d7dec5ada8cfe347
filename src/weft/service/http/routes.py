"""The routes of docs/reference/rest.md. Each calls one method of `Service`."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from weft.errors import QuotaExceeded, Unauthorized, UnknownStream, WeftError
from weft.service.config import StreamSpec
from weft.service.events.connections import Connections
from weft.service.events.rows import Cursor, parse_cursor
from weft.service.http import errors, metrics, shapes
from weft.service.http.long_responses import EventStreamResponse
from weft.service.service import LARGEST_PAGE, QuerySpec, Service
from weft.service.tenancy.tenants import Tenant
from weft.service.tenancy.views import result_columns
from weft.storage.ended_queries import query_number

_LONGEST_TEXT = 1 << 20
_MOST_AT_ONCE = 1000
_LARGEST_PAGE = 10_000
_LARGEST_NUMBER = 10**15
_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": shapes.Error} for status in (400, 401, 403, 404, 409, 410, 422, 429, 503)
}
_BEARER = HTTPBearer(auto_error=False, description="A tenant's token; not needed where there are no tenants.")

health = APIRouter(tags=["health"])
router = APIRouter(prefix="/v1", responses=_FAILURES)


# The dependencies are coroutines: FastAPI runs other functions in its thread pool, which may be exhausted.


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _streaming(request: Request) -> Connections:
    streaming: Connections = request.app.state.streaming
    return streaming


Serving = Annotated[Service, Depends(_service)]
Live = Annotated[Connections, Depends(_streaming)]


async def _tenant(
    request: Request, service: Serving, _: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
) -> Tenant:
    return service.tenants.authenticate(request.headers.get("authorization"))


Known = Annotated[Tenant, Depends(_tenant)]


async def _turn(tenant: Known, live: Live) -> AsyncIterator[Tenant]:
    async with live.workers.turn(tenant):
        yield tenant


Asking = Annotated[Tenant, Depends(_turn, scope="function")]
"""The tenant, once it has a turn: a tenant may use only some of the threads that answer requests."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Text(_Body):
    """The text of a query."""

    sql: str = Field(max_length=_LONGEST_TEXT)


class NewQuery(Text):
    """A query to create; without a name it is given one."""

    name: str | None = Field(default=None, max_length=128)
    deliver: bool = False


class NewQueries(_Body):
    """Queries to create, all or none."""

    queries: list[NewQuery] = Field(min_length=1, max_length=_MOST_AT_ONCE)


class Watermark(_Body):
    """The event time to set a watermark back to."""

    time: str = Field(max_length=64)


# ---- health


@health.get("/health")
async def is_alive() -> dict[str, bool]:
    """Whether the process lives."""
    return {"ok": True}


@health.get("/ready", response_model=shapes.Ready, responses={503: {"model": shapes.Ready}})
async def is_ready(request: Request, service: Serving) -> Response:
    """Whether batches are committed, or there is nothing to do."""
    try:
        tenant: Tenant | None = service.tenants.authenticate(request.headers.get("authorization"))
    except Unauthorized:
        tenant = None
    standing, now = service.standing, time.monotonic()
    state, error = service.state(tenant)
    ready: shapes.Ready = {
        "ok": standing.ready,
        "state": state,
        "error": error,
        "failures": standing.failures,
        "retry_seconds": None if standing.next_try is None else round(max(0.0, standing.next_try - now), 1),
        "batch_seconds": None if standing.batch_began is None else round(now - standing.batch_began, 1),
        "failing_streams": list(standing.failing_streams) if tenant is not None and tenant.admin else [],
    }
    return JSONResponse(ready, 200 if standing.ready else 503)


@health.get("/metrics", response_class=Response, responses=_FAILURES)
def prometheus(service: Serving, live: Live, tenant: Asking) -> Response:
    """Figures for Prometheus."""
    text = metrics.exposition(service, tenant, followers=live.places.count(tenant))
    return Response(text, media_type=metrics.CONTENT_TYPE)


# ---- streams


@router.get("/streams", tags=["streams"])
def list_streams(service: Serving, tenant: Asking) -> shapes.Streams:
    """All streams."""
    return {"streams": service.streams(tenant)}


@router.post("/streams", tags=["streams"], status_code=201)
def add_stream(service: Serving, tenant: Asking, spec: StreamSpec) -> shapes.Stream:
    """Declare a stream."""
    return service.add_stream(tenant, spec)


@router.delete("/streams/{name}", tags=["streams"], response_model=shapes.Stream)
def drop_stream(service: Serving, tenant: Asking, name: str, *, cascade: bool = False) -> Any:
    """Remove a stream, with `cascade` also the queries that read it; for administrators."""
    try:
        return service.drop_stream(tenant, name, cascade=cascade)
    except UnknownStream as error:
        return JSONResponse(errors.shape(error), 404)


@router.post("/streams/{name}/watermark", tags=["streams"])
def set_watermark(service: Serving, tenant: Asking, name: str, body: Watermark) -> shapes.Stream:
    """Set a stream's watermark back."""
    return service.set_watermark(tenant, name, body.time)


# ---- queries


@router.get("/queries", tags=["queries"])
def list_queries(
    service: Serving,
    tenant: Asking,
    state: Literal["live", "ended", "all"] = "live",
    *,
    after: Annotated[int, Query(ge=0, lt=_LARGEST_NUMBER)] = 0,
    limit: Annotated[int | None, Query(ge=1, le=_LARGEST_PAGE)] = None,
    latest: bool = False,
) -> shapes.QueryPage:
    """The tenant's queries, the oldest first; ended ones page by page, or only the `latest`."""
    limit = LARGEST_PAGE if limit is None and state != "live" else limit
    fetched = limit if limit is None or latest else limit + 1
    queries = service.queries(tenant, state, after=after, limit=fetched, latest=latest)
    more = limit is not None and len(queries) > limit
    page, views = queries[:limit], service.views(tenant)
    cursor = query_number(page[-1].id) if page else after
    return {"queries": views.queries(page), "cursor": cursor, "more": more}


@router.post("/queries", tags=["queries"], status_code=201)
def create_query(service: Serving, tenant: Asking, body: NewQuery) -> shapes.Query:
    """Create a query."""
    created = service.create(tenant, [QuerySpec(body.sql, body.name, body.deliver)])
    return service.views(tenant).query(created[0])


@router.post("/queries/many", tags=["queries"], status_code=201)
def create_queries(service: Serving, tenant: Asking, body: NewQueries) -> shapes.Queries:
    """Create queries, all or none."""
    created = service.create(tenant, [QuerySpec(query.sql, query.name, query.deliver) for query in body.queries])
    views = service.views(tenant)
    return {"queries": [views.query(query) for query in created]}


@router.get("/queries/{name}", tags=["queries"])
def show_query(service: Serving, tenant: Asking, name: str) -> shapes.Query:
    """A query."""
    return service.views(tenant).query(service.query(tenant, name))


@router.delete("/queries/{name}", tags=["queries"])
def drop_query(service: Serving, tenant: Asking, name: str) -> shapes.Query:
    """Drop a query; its committed rows stay readable."""
    return service.views(tenant).query(service.drop(tenant, name))


@router.post("/queries/{name}/sink/resume", tags=["queries"])
def resume_sink(service: Serving, tenant: Asking, name: str) -> shapes.Query:
    """Let a sink that has failed go on with the rows that are kept; those that are gone are noted as a gap."""
    return service.views(tenant).query(service.resume_sink(tenant, name))


@router.get("/queries/{name}/explain", tags=["queries"])
def explain_query(service: Serving, tenant: Asking, name: str) -> shapes.Explained:
    """How a query is run, and what it shares."""
    return service.explain(tenant, name)


@router.post("/validate", tags=["queries"])
def validate(service: Serving, tenant: Asking, body: Text) -> shapes.Valid | shapes.Error:
    """Whether a text is a valid query; an invalid text is answered with 200 and its error."""
    try:
        bound = service.check(tenant, body.sql)
    except WeftError as error:
        if errors.status_of(error) >= 500 or isinstance(error, QuotaExceeded):
            raise
        return errors.shape(error)
    return {"ok": True, "columns": result_columns(bound), "notices": list(bound.notices)}


@router.post("/what-if", tags=["queries"])
def what_if(service: Serving, tenant: Asking, body: Text) -> shapes.WhatIf:
    """What creating a query would add to the shared plan."""
    return service.what_if(tenant, body.sql)


# ---- rows


@router.get("/queries/{name}/results", tags=["rows"], response_model=shapes.Page)
async def results(
    service: Serving,
    live: Live,
    tenant: Known,
    name: str,
    *,
    after: Annotated[str, Query(max_length=40)] = "0",
    limit: Annotated[int, Query(ge=1, le=_LARGEST_PAGE)] = 1000,
) -> Response:
    """Committed rows after a cursor, the oldest first."""
    async with live.workers.waiting(tenant, "reads"):
        return await live.workers.read(tenant, _page, service, tenant, name, after=after, limit=limit)


def _page(service: Service, tenant: Tenant, name: str, *, after: str, limit: int) -> Response:
    page, rows = service.page(tenant, name, after=parse_cursor(after), limit=limit)
    head = json.dumps({key: value for key, value in page.items() if key != "rows"}, separators=(",", ":"))
    # The rows are JSON texts already.
    return Response(f'{head[:-1]},"rows":[{",".join(rows)}]}}', media_type="application/json")


@router.get("/queries/{name}/follow", tags=["rows"], response_class=StreamingResponse)
async def follow(
    service: Serving,
    live: Live,
    tenant: Known,
    name: str,
    *,
    after: Annotated[str, Query(max_length=40)] = "0",
    last_event_id: Annotated[str | None, Header(max_length=40)] = None,
) -> Response:
    """Committed rows after a cursor, then those of every batch, as server-sent events."""
    query = await live.workers.look(service.readable, tenant, name)
    position = last_event_id or after
    cursor = Cursor(service.catalog.next_batch) if position == "now" else parse_cursor(position)
    return EventStreamResponse(live.followers.follow(tenant, query, cursor), partial(live.places.take, tenant))


# ---- the service


@router.get("/plan", tags=["plan"])
def plan(service: Serving, tenant: Asking) -> shapes.Plan:
    """The shared plan."""
    return service.views(tenant).plan()


@router.get("/status", tags=["plan"])
def status(service: Serving, tenant: Asking) -> shapes.Status:
    """The state of the service as the tenant sees it, with the last batches."""
    return service.views(tenant).status(*service.state(tenant))


@router.get("/events", tags=["plan"], response_class=StreamingResponse)
async def events(live: Live, tenant: Known) -> Response:
    """The state of the service after every batch, as server-sent events."""
    return EventStreamResponse(live.ticks.follow(tenant), partial(live.places.take, tenant))
