"""The requests of docs/service.md: each calls one method of `Service`."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from weft.errors import WeftError
from weft.service import errors, metrics, shapes
from weft.service.config import StreamSpec
from weft.service.host import State
from weft.service.rows import Cursor, parse_cursor
from weft.service.service import Service, Wanted
from weft.service.streaming import Streaming
from weft.service.tenants import Tenant
from weft.service.views import columns_of

_LONGEST_TEXT = 1 << 20
_MOST_AT_ONCE = 1000
_LARGEST_PAGE = 10_000
_EVENTS = "text/event-stream"
_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": shapes.Error} for status in (400, 401, 403, 404, 409, 410, 422, 429, 503)
}
_BEARER = HTTPBearer(auto_error=False, description="A tenant's token; not needed where there are no tenants.")

health = APIRouter(tags=["health"])
router = APIRouter(prefix="/v1", responses=_FAILURES)


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _streaming(request: Request) -> Streaming:
    streaming: Streaming = request.app.state.streaming
    return streaming


Serving = Annotated[Service, Depends(_service)]
Live = Annotated[Streaming, Depends(_streaming)]


def _tenant(
    request: Request, service: Serving, _: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
) -> Tenant:
    return service.tenants.authenticate(request.headers.get("authorization"))


Asking = Annotated[Tenant, Depends(_tenant)]


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


# ---- health


@health.get("/health")
async def is_alive() -> dict[str, bool]:
    """Whether the process lives."""
    return {"ok": True}


@health.get("/ready", response_model=shapes.Ready, responses={503: {"model": shapes.Ready}})
async def is_ready(service: Serving) -> Response:
    """Whether the engine runs."""
    state, error = service.state
    running = state == State.RUNNING
    return JSONResponse({"ok": running, "state": state, "error": error}, 200 if running else 503)


@health.get("/metrics", response_class=Response, responses=_FAILURES)
def prometheus(service: Serving, live: Live, tenant: Asking) -> Response:
    """Figures for Prometheus."""
    text = metrics.exposition(service, tenant, followers=live.followers.count)
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


# ---- queries


@router.get("/queries", tags=["queries"])
def list_queries(service: Serving, tenant: Asking, state: Literal["live", "ended", "all"] = "live") -> shapes.Queries:
    """The tenant's queries."""
    views = service.views(tenant)
    return {"queries": [views.query(query) for query in service.queries(tenant, state)]}


@router.post("/queries", tags=["queries"], status_code=201)
def create_query(service: Serving, tenant: Asking, body: NewQuery) -> shapes.Query:
    """Create a query."""
    created = service.create(tenant, [Wanted(body.sql, body.name, body.deliver)])
    return service.views(tenant).query(created[0])


@router.post("/queries/many", tags=["queries"], status_code=201)
def create_queries(service: Serving, tenant: Asking, body: NewQueries) -> shapes.Queries:
    """Create queries, all or none."""
    created = service.create(tenant, [Wanted(each.sql, each.name, each.deliver) for each in body.queries])
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


@router.get("/queries/{name}/explain", tags=["queries"])
def explain_query(service: Serving, tenant: Asking, name: str) -> shapes.Explained:
    """How a query is run, and what it shares."""
    return service.explain(tenant, name)


@router.post("/validate", tags=["queries"])
def validate(service: Serving, tenant: Asking, body: Text) -> shapes.Valid | shapes.Error:
    """Whether a text is a query; what is wrong with it is no error of the request."""
    try:
        bound = service.check(body.sql)
    except WeftError as error:
        if errors.status_of(error) >= 500:
            raise
        return errors.shape(error)
    return {"ok": True, "columns": columns_of(bound), "notices": list(bound.notices)}


@router.post("/what-if", tags=["queries"])
def what_if(service: Serving, tenant: Asking, body: Text) -> shapes.WhatIf:
    """What creating a query would add to the shared plan."""
    return service.what_if(tenant, body.sql)


# ---- rows


@router.get("/queries/{name}/results", tags=["rows"], response_model=shapes.Page)
def results(
    service: Serving,
    tenant: Asking,
    name: str,
    *,
    after: Annotated[str, Query(max_length=40)] = "0",
    limit: Annotated[int, Query(ge=1, le=_LARGEST_PAGE)] = 1000,
) -> Response:
    """Committed rows after a cursor, the oldest first."""
    page, rows = service.page(tenant, name, after=parse_cursor(after), limit=limit)
    head = json.dumps({key: value for key, value in page.items() if key != "rows"}, separators=(",", ":"))
    # The rows are JSON already.
    return Response(f'{head[:-1]},"rows":[{",".join(rows)}]}}', media_type="application/json")


@router.get("/queries/{name}/follow", tags=["rows"], response_class=StreamingResponse)
async def follow(
    service: Serving,
    live: Live,
    tenant: Asking,
    name: str,
    *,
    after: Annotated[str, Query(max_length=40)] = "0",
    last_event_id: Annotated[str | None, Header(max_length=40)] = None,
) -> Response:
    """Committed rows after a cursor, then those of every batch, as server-sent events."""
    query = await asyncio.to_thread(service.query, tenant, name)
    text = last_event_id or after
    cursor = Cursor(service.engine.core.next_batch) if text == "now" else parse_cursor(text)
    return StreamingResponse(live.followers.follow(tenant, query, cursor), media_type=_EVENTS)


# ---- the whole


@router.get("/plan", tags=["plan"])
def plan(service: Serving, tenant: Asking) -> shapes.Plan:
    """The shared plan."""
    return service.views(tenant).plan()


@router.get("/status", tags=["plan"])
def status(service: Serving, tenant: Asking) -> shapes.Status:
    """How it goes, with the last batches."""
    return service.views(tenant).status(*service.state)


@router.get("/events", tags=["plan"], response_class=StreamingResponse)
async def events(live: Live, tenant: Asking) -> Response:
    """How it goes, as server-sent events."""
    return StreamingResponse(live.ticks.follow(tenant), media_type=_EVENTS)
