"""The server of the page: on this machine alone, behind a random token, for pages of its own alone.

Everything lies under the token, so that addresses within the page are relative; the browser stores nothing
but who answers and a number of the page. A request of another page (`Origin`, `Sec-Fetch-Site`), to another
name of this machine (`Host`, against names that are made to point here) or without the token is refused.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import cv2
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from data_prep.errors import InputError
from data_prep.files.depth import read_at_levels
from data_prep.files.fitting import fit_within
from data_prep.files.images import encode_picture
from pipelines.label.session import Mode, Session

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST: Final = "127.0.0.1"

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_PAGE: Final = {"": "page.html", **{name: name for name in ("page.css", "page.js", "icon.svg")}}
_MEDIA: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_LONGEST_BODY: Final = 100_000
_SMALL, _LARGE, _WHOLE = 240, 2048, 10_000
"""Longest sides in pixels of thumbnails, of the image, and of what is shown of it under a large zoom."""
_JPEG: Final = {_SMALL: 85, _LARGE: 95, _WHOLE: 92}


class GivenAnswer(BaseModel):
    """What a page sends."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tab: Annotated[str, Field(min_length=1, max_length=64)]
    who: Annotated[str, Field(max_length=200)] = ""
    mode: Mode = "ask"
    images: Annotated[tuple[int, ...], Field(max_length=100)] = ()
    verdict: Literal["class", "unsure", "not usable"] | None = None
    class_name: str = ""


class Guard:
    """Refuses requests that do not come from the page, and adds headers to all answers.

    Args:
        app: What answers the others.
        port: Of this server.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{host}:{port}" for host in (HOST, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        app: ASGIApp = self._app if self._is_own(scope) else _refusal()
        await app(scope, receive, send_guarded)

    def _is_own(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        origins = {f"http://{host}" for host in self._hosts}
        return (
            scope["type"] == "http"
            and headers.get("host") in self._hosts
            and headers.get("origin", next(iter(origins))) in origins
            and headers.get("sec-fetch-site", "none") in {"none", "same-origin"}
        )


def make_server(session: Session, *, token: str, port: int, who: str = "") -> ASGIApp:
    """Return the application that answers the pages of a session.

    Args:
        session: What is labelled.
        token: What the address of the page begins with.
        port: On which it will listen.
        who: Who answers, unless the page says somebody else.
    """
    api = partial(_answered, session)
    routes = [
        *(Route(f"/{name}", partial(_page, name)) for name in _PAGE),
        Route("/session", api(partial(_session, who)), methods=["GET"]),
        Route("/progress", api(lambda session, _: session.progress()), methods=["GET"]),
        Route("/question", api(_question), methods=["POST"]),
        Route("/answer", api(_answer), methods=["POST"]),
        Route("/undo", api(_undo), methods=["POST"]),
        Route("/alike/{number:int}", partial(_alike, session), methods=["GET"]),
        Route("/image/{number:int}", partial(_image, session, _LARGE), methods=["GET"]),
        Route("/whole/{number:int}", partial(_image, session, _WHOLE), methods=["GET"]),
        Route("/thumbnail/{number:int}", partial(_image, session, _SMALL), methods=["GET"]),
    ]
    return Guard(Starlette(routes=[Mount("/{token}", _behind(token, Starlette(routes=routes)))]), port)


def _behind(token: str, app: ASGIApp) -> ASGIApp:
    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        given = scope["path_params"]["token"]
        is_known = hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
        await (app if is_known else _refusal())(scope, receive, send)

    return guarded


def _refusal() -> ASGIApp:
    text = "This page is opened by the address that `gpimaging label` prints, and by no other."
    return PlainTextResponse(text, status_code=403)


# Answers; the work is done in a thread


def _answered(
    session: Session, work: Callable[[Session, GivenAnswer], dict[str, Any]]
) -> Callable[[Request], Any]:
    """Return what reads a request, does some work in a thread, and answers with what that returns."""

    async def answer(request: Request) -> Response:
        given = GivenAnswer(tab="-")
        if request.method == "POST":
            body = await _body(request)
            try:
                given = GivenAnswer.model_validate_json(body)
            except ValidationError as error:
                reason = error.errors(include_url=False)[0]["msg"]
                return JSONResponse({"error": f"{reason}. Load the page again."}, status_code=422)
        try:
            return JSONResponse(await run_in_threadpool(work, session, given))
        except InputError as error:
            return JSONResponse({"error": str(error)}, status_code=422)

    return answer


async def _body(request: Request) -> bytes:
    """Return the body of a request, as far as one of the page may be long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST_BODY:
            return b""
    return body


def _session(who: str, session: Session, _given: GivenAnswer) -> dict[str, Any]:
    mode: Mode = "review" if session.pool.purpose == "suspects" else "ask"
    folder = session.pool.folder.resolve().name
    return {"classes": session.classes, "folder": folder, "who": who, "mode": mode}


def _question(session: Session, given: GivenAnswer) -> dict[str, Any]:
    return {"question": session.question(given.tab, given.mode)}


def _answer(session: Session, given: GivenAnswer) -> dict[str, Any]:
    if given.verdict is None:
        session.skip(given.tab)
    else:
        session.answer(
            given.images,
            given.verdict,
            class_name=given.class_name,
            who=given.who,
            tab=given.tab,
            mode=given.mode,
        )
    return _question(session, given)


def _undo(session: Session, given: GivenAnswer) -> dict[str, Any]:
    return {"undone": session.undo(given.tab, who=given.who), **_question(session, given)}


# Files


async def _page(name: str, _request: Request) -> Response:
    file = _PAGE[name]
    text = files("pipelines.label.page").joinpath(file).read_text("utf-8")
    return Response(text, media_type=_MEDIA[file.rpartition(".")[2]])


async def _alike(session: Session, request: Request) -> Response:
    number = request.path_params["number"]
    if not 0 <= number < len(session.pool.images):
        return PlainTextResponse("There is no such image.", status_code=404)
    return JSONResponse(await run_in_threadpool(session.alike, number))


async def _image(session: Session, side: int, request: Request) -> Response:
    number = request.path_params["number"]
    if not 0 <= number < len(session.pool.images):
        return PlainTextResponse("There is no such image.", status_code=404)
    try:
        content = await run_in_threadpool(_picture, session, number, side)
    except InputError as error:
        return PlainTextResponse(str(error), status_code=415)
    return Response(content, media_type="image/jpeg")


def _picture(session: Session, number: int, side: int) -> bytes:
    image = read_at_levels(session.pool.images[number].path, session.pool.levels)
    return encode_picture(fit_within(image, side), ".jpg", [cv2.IMWRITE_JPEG_QUALITY, _JPEG[side]])
