"""A page of this host: only who knows its address, with a token in it, sees it."""

import hmac
import http.server
import json
import secrets
import urllib.parse
from collections.abc import Callable
from typing import Any, Optional

from ._nagori import Error


def serve(page: str, data: Callable[[], Any], port: int, token: Optional[str] = None) -> tuple[Any, str]:
    """A server on 127.0.0.1 of a page, which asks for `data`, and its address; port 0 is any that is free.

    Raises:
        Error: the port cannot be used.
    """
    secret = token or secrets.token_urlsafe(16)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            given = urllib.parse.parse_qs(url.query).get("token", [""])[0]
            # A page of somebody else could have the name of its host point here.
            host = self.headers.get("Host", "").rsplit(":", 1)[0]
            if not hmac.compare_digest(given.encode(), secret.encode()) or host not in ("127.0.0.1", "localhost"):
                self._answer(403, "text/plain", b"the address lacks the token that was printed with it\n")
            elif url.path == "/":
                self._answer(200, "text/html; charset=utf-8", page.encode())
            elif url.path == "/data":
                self._answer(200, "application/json", json.dumps(data()).encode())
            else:
                self._answer(404, "text/plain", b"there is no such page\n")

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Referrer-Policy", "no-referrer")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as e:
        raise Error(f"port {port} cannot be used: {e.strerror}") from None
    server.daemon_threads = True
    return server, f"http://127.0.0.1:{server.server_address[1]}/?token={secret}"
