"""The FastAPI application: routes, the files of the dashboard, and the lifetime of the engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

import weft
from weft.service.events.commit_signal import CommitSignal
from weft.service.events.connections import Connections
from weft.service.http import errors
from weft.service.http.middleware import RequestGuard
from weft.service.http.routes import health, router
from weft.service.service import Service

_STATIC = Path(__file__).parents[1] / "static"


def make_app(service: Service) -> FastAPI:
    """Return the application of `service`. Its lifespan starts and stops the engine."""
    app = FastAPI(
        title="weft",
        version=weft.__version__,
        description="Many ad-hoc streaming queries, one shared plan.",
        lifespan=_lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from other sites
        redoc_url=None,
    )
    app.state.service = service
    errors.install(app)
    app.add_middleware(RequestGuard, hosts_checked=service.tenants.open)
    app.include_router(health)
    app.include_router(router)
    app.get("/", include_in_schema=False)(_dashboard)
    app.get("/docs", include_in_schema=False)(_requests)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    bell = CommitSignal(asyncio.get_running_loop())
    service.host.on_batch = bell.ring
    app.state.streaming = streaming = Connections(service, bell)
    service.host.start()
    service.budgets.start()
    try:
        yield
    finally:
        streaming.stop()
        service.budgets.stop()
        streaming.workers.stop()
        await _in_a_thread(service.host.stop)


async def _in_a_thread(function: Callable[[], None]) -> None:
    """Run `function` in a new daemon thread: it waits for no pool, and the exit of the process does not wait for it."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            failures.append(error)
        loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="weft-stop", daemon=True).start()
    await done.wait()
    if failures:
        raise failures[0]


async def _dashboard() -> Response:
    return FileResponse(_STATIC / "index.html")


async def _requests() -> Response:
    return FileResponse(_STATIC / "docs.html")
