"""Errors as HTTP responses: one JSON shape, with a status that follows from the class of the error."""

from __future__ import annotations

import logging
import math
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from weft import errors
from weft.errors import InternalError, InvalidRequest, QuotaExceeded, WeftError
from weft.service.http import shapes

_log = logging.getLogger("weft.service")
_STATUS: tuple[tuple[type[WeftError], HTTPStatus], ...] = (
    (errors.Unauthorized, HTTPStatus.UNAUTHORIZED),
    (errors.Forbidden, HTTPStatus.FORBIDDEN),
    (errors.UnknownQuery, HTTPStatus.NOT_FOUND),
    (errors.DuplicateQuery, HTTPStatus.CONFLICT),
    (errors.DuplicateStream, HTTPStatus.CONFLICT),
    (errors.ResultsGone, HTTPStatus.GONE),
    (errors.InvalidRequest, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.QuotaExceeded, HTTPStatus.TOO_MANY_REQUESTS),
    (errors.StreamInUse, HTTPStatus.CONFLICT),
    (errors.EngineStopped, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.BatchFailed, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.ReadTimeout, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.SourceUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.StateUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.DiskFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (errors.QueryError, HTTPStatus.BAD_REQUEST),
    (errors.QueryFailed, HTTPStatus.BAD_REQUEST),
    (errors.InvalidName, HTTPStatus.BAD_REQUEST),
    (errors.InvalidStream, HTTPStatus.BAD_REQUEST),
    (errors.InvalidSetting, HTTPStatus.BAD_REQUEST),
    (errors.BadFile, HTTPStatus.BAD_REQUEST),
)


def status_of(error: WeftError) -> int:
    """Return the HTTP status of an error. Classes that are not listed are faults of the service: 500."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


def shape(error: WeftError) -> shapes.Error:
    """Return an error as the JSON object that every error response contains."""
    return {"ok": False, "code": error.code, "message": error.message, "detail": error.detail, "hint": error.hint}


def answer(error: WeftError) -> JSONResponse:
    """Return the HTTP response for an error."""
    headers = {}
    if isinstance(error, QuotaExceeded):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if isinstance(error, errors.Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(shape(error), status_of(error), headers)


def install(app: FastAPI) -> None:
    """Register handlers with `app` that answer every error in the shape of `shape`."""
    app.add_exception_handler(WeftError, _weft_error)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)


async def _weft_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, WeftError)
    return answer(error)


async def _malformed(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = [f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in error.errors()]
    return answer(InvalidRequest("the request is malformed", detail="; ".join(problems[:5])))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer an error of the framework itself, such as an unknown path or a wrong method."""
    assert isinstance(error, HTTPException)
    body: shapes.Error = {
        "ok": False,
        "code": HTTPStatus(error.status_code).phrase.lower().replace(" ", "_"),
        "message": f"{request.method} {request.url.path}: {error.detail}",
        "detail": "",
        "hint": "docs/reference/rest.md has all requests, and /docs shows them.",
    }
    return JSONResponse(body, error.status_code, error.headers)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    reason = f"{request.method} {request.url.path}: {type(error).__name__}: {error}"
    _log.error(f"request failed: {reason}", extra={"path": request.url.path}, exc_info=error)
    return answer(InternalError("the request failed because of a bug in weft", hint="The service's log has more."))
