"""The workers of one Connect cluster, by URL, and which of them answered last."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from urllib.parse import urlsplit

from seamark.errors import InvalidSettingError, MissingSettingError


class Workers:
    """URLs in the order to try them. Remembers the one that answered, so a dead first one costs once, not always."""

    def __init__(self, urls: Sequence[str], *, cluster: str) -> None:
        if not urls:
            raise MissingSettingError(
                f"Connect cluster {cluster} has no URL",
                hint="give the URL of at least one worker, such as http://connect-1:8083",
                context={"cluster": cluster},
            )
        self.urls: tuple[str, ...] = tuple(dict.fromkeys(_check_url(url, cluster=cluster) for url in urls))
        self._lock = threading.Lock()
        self._good = 0

    def order(self) -> tuple[str, ...]:
        """Every URL, the one that answered last in front."""
        with self._lock:
            good = self._good
        return self.urls[good:] + self.urls[:good]

    def remember(self, url: str) -> None:
        """This one answered."""
        with self._lock:
            self._good = self.urls.index(url)


def _check_url(url: str, *, cluster: str) -> str:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InvalidSettingError(
            f"a URL of Connect cluster {cluster} can't be used",
            cause="it must be http:// or https:// with a host",
            hint="write it like http://connect-1:8083",
            context={"cluster": cluster},
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        # Naming the URL here would put the password into the message.
        raise InvalidSettingError(
            f"a URL of Connect cluster {cluster} holds more than an address",
            cause="credentials, a query or a fragment stand in it",
            hint="put credentials into username and password of the context",
            context={"cluster": cluster},
        )
    return url.rstrip("/")
