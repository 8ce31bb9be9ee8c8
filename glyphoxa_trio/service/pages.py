"""The pages of the service, which are files of this package and load nothing else."""

from __future__ import annotations

import hashlib
from functools import partial
from importlib.resources import files
from typing import Final

import attrs
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from .admission import COOKIE, LASTS, ClientAdmission, cookie_of, is_own_page
from .endpoints import (
    EmptyBody,
    ServiceEndpoint,
    ServiceRequest,
    error_response,
    json_response,
)
from .rights import RIGHTS

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

# Scripts and styles are files of this service, and nothing else is loaded.
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


class LoginBody(BaseModel):
    """The token that a page shows once."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    token: str


@attrs.frozen
class PageFile:
    """A file of a page, and the tag by which a browser knows that it has it."""

    body: bytes
    media_type: str
    tag: str


def page_files() -> dict[str, PageFile]:
    """Return the files of all pages, by name."""
    found: dict[str, PageFile] = {}
    for file in (files("glyphoxa_trio.service") / "pages").iterdir():
        body, suffix = file.read_bytes(), file.name.rpartition(".")[2]
        tag = hashlib.sha256(body).hexdigest()[:16]
        found[file.name] = PageFile(body, _TYPES[suffix], f'"{tag}"')
    return found


@attrs.frozen(eq=False)
class Pages:
    """The endpoints of pages: their files, and their login.

    Args:
      secure: the cookie is for HTTPS only.
    """

    _admission: ClientAdmission
    _secure: bool
    _files: dict[str, PageFile] = attrs.field(factory=page_files)

    def endpoints(self) -> list[ServiceEndpoint]:
        """Return the endpoints of files; none of them needs anything."""
        shown = [
            ServiceEndpoint(
                method="GET",
                path=path,
                right=None,
                summary="A page.",
                handler=partial(self._file, name),
                answer="text/html",
            )
            for path, name in (
                ("/", "table.html"),
                ("/table", "table.html"),
                ("/operator", "operator.html"),
            )
        ]
        described = ServiceEndpoint(
            method="GET",
            path="/pages/{file}",
            right=None,
            summary="A file of a page.",
            handler=self._named,
            answer="*/*",
        )
        return [*shown, described]

    def login_endpoints(self) -> list[ServiceEndpoint]:
        """Return the endpoints with which a page says who it is."""
        return [
            ServiceEndpoint(
                method="GET",
                path="/api/me",
                right=None,
                summary="The role of the client, and its rights.",
                handler=self._me,
            ),
            ServiceEndpoint(
                method="POST",
                path="/api/login",
                right=None,
                summary="Exchange a token for a cookie; only for pages of the service.",
                handler=self._login,
                body=LoginBody,
            ),
            ServiceEndpoint(
                method="POST",
                path="/api/logout",
                right=None,
                summary="End the login of the cookie.",
                handler=self._logout,
                body=EmptyBody,
            ),
        ]

    async def _named(self, asked: ServiceRequest) -> Response:
        name = asked.path["file"]
        if name not in self._files or name.endswith(".html"):
            return error_response("not_found", f"no file {name!r}")
        return await self._file(name, asked)

    async def _file(self, name: str, asked: ServiceRequest) -> Response:
        file = self._files[name]
        headers = {
            "ETag": file.tag,
            "Cache-Control": "no-cache",
            "Content-Security-Policy": _POLICY,
            "Cross-Origin-Resource-Policy": "same-origin",
            "Permissions-Policy": "microphone=(self)",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        if asked.headers.get("if-none-match") == file.tag:
            return Response(None, 304, headers)
        return Response(file.body, 200, headers, file.media_type)

    async def _me(self, asked: ServiceRequest) -> Response:
        client = asked.client
        rights = [] if client is None else sorted(RIGHTS[client.role])
        cookie = cookie_of(asked.headers) or ""
        return json_response(
            {
                "role": None if client is None else client.role,
                "session": None if client is None else client.session,
                "speaker": None if client is None else client.speaker,
                "rights": rights,
                "logged_in": self._admission.logins.client_of(cookie) is not None,
            }
        )

    async def _login(self, asked: ServiceRequest) -> Response:
        body: LoginBody = await asked.body(LoginBody)
        if not is_own_page(asked.headers, "POST"):
            return error_response("forbidden", "only a page of this service logs in")
        client = self._admission.tokens.client_of(body.token)
        if client is None:
            return error_response("forbidden", "the token is not valid")
        response = json_response({"role": client.role, "session": client.session})
        response.set_cookie(
            COOKIE,
            self._admission.logins.log_in(client),
            max_age=round(LASTS),
            secure=self._secure,
            httponly=True,
            samesite="strict",
        )
        return response

    async def _logout(self, asked: ServiceRequest) -> Response:
        await asked.body(EmptyBody)
        value = cookie_of(asked.headers)
        if value is not None and is_own_page(asked.headers, "POST"):
            self._admission.logins.log_out(value)
        response = json_response({})
        response.delete_cookie(COOKIE)
        return response
