"""The one place where outputs lose what differs from run to run.

Fingerprints of preconditions, seals and checksums stay as they are: the environment makes them deterministic.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

# Times of a running clock. Fixed times of the fakes (1970, 2023 and 2026-01-01) stay.
_TIME = re.compile(r"\b20(?:2[6-9]|[3-9]\d)-(?!01-01T00:00)\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?")
# Change IDs and copy IDs are ULIDs.
_ID = re.compile(r"\b0[0-9A-HJKMNP-TV-Z]{25}\b")
_PORT = re.compile(r"\b127\.0\.0\.1:\d+")
# The fixed actor counts where others draw random bytes.
_NONCE = re.compile(r"\b0{12}[0-9a-f]{4}\b")
# The hashes of journal entries and plan files are over everything that they hold, times, IDs and folders too.
_HASH = re.compile(r'("(?:hash|previous|sha256|plan_sha256)": ?)"[0-9a-f]{64}"')
_SIGNATURE = re.compile(r'("signature": ?)"hmac-sha256:[0-9a-f]{8}:[0-9a-f]{64}"')


class Normalizer:
    """Replaces IDs by their order of appearance, and times, folders and ports by placeholders."""

    def __init__(self, folder: Path) -> None:
        plain = {str(folder), str(folder.resolve())}
        # Names of locks have them encoded.
        self._folders = sorted({*plain, *(quote(one, safe="") for one in plain)}, key=len, reverse=True)
        self._ids: dict[str, str] = {}

    def normalize(self, text: str) -> str:
        """Return the text with placeholders."""
        for folder in self._folders:
            text = text.replace(folder, "<DIR>")
        text = _ID.sub(lambda found: self._name(found[0]), text)
        text = _TIME.sub("<TIME>", text)
        text = _PORT.sub("127.0.0.1:<PORT>", text)
        text = _NONCE.sub("<NONCE>", text)
        text = _SIGNATURE.sub(r'\1"<SIGNATURE>"', text)
        return _HASH.sub(r'\1"<HASH>"', text)

    def _name(self, found: str) -> str:
        return self._ids.setdefault(found, f"<ID-{len(self._ids) + 1}>")


def format_output(text: str) -> str:
    """Return a JSON document with sorted keys and one value per line, and any other text as it is."""
    try:
        document = json.loads(text)
    except ValueError:
        return text
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
