"""Pages that lie on Milvus, read by number and by the key of their URL, each call for many at a time. Knows no query."""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Collection

from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.milvus.client import MilvusStore
from sanderling.world.pages import StoredPage

_KEPT = 4_096


def key_of(canonical: str) -> str:
    """The stored form of a canonical URL, which may be of any length."""
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def packed(page: Page, readable: bool) -> str:
    """A page as one text."""
    return json.dumps({"page": page.model_dump(), "readable": readable}, ensure_ascii=False)


def page_key(page: Page) -> str:
    """The key of a page."""
    return key_of(canonical_url(page.url))


class MilvusPages:
    """Implements `pages.PageStore`; remembers the pages read last. May be called from many threads."""

    def __init__(self, store: MilvusStore) -> None:
        self._store = store
        self._kept: OrderedDict[int, StoredPage] = OrderedDict()
        self._lock = threading.Lock()

    def fetch(self, numbers: Collection[int]) -> None:
        """Read pages ahead, all in one call."""
        with self._lock:
            missing = [number for number in dict.fromkeys(numbers) if number not in self._kept]
        for at in range(0, len(missing), _KEPT):
            self._keep(missing[at : at + _KEPT])

    def get(self, number: int) -> StoredPage:
        with self._lock:
            found = self._kept.get(number)
        return found if found is not None else self._keep([number])[number]

    def find(self, key: str) -> int | None:
        hashed = key_of(key)
        return self._store.numbers([hashed]).get(hashed)

    def find_many(self, keys: Collection[str]) -> list[int]:
        """The numbers of those of the keys that there are, in one call."""
        return sorted(self._store.numbers([key_of(key) for key in keys]).values())

    def _keep(self, numbers: list[int]) -> dict[int, StoredPage]:
        """Raises KeyError for a number that there is not."""
        found: dict[int, StoredPage] = {}
        bodies = self._store.bodies(numbers)
        for number in numbers:
            data = json.loads(bodies[number])
            found[number] = StoredPage(Page(**data["page"]), data["readable"])
        with self._lock:
            self._kept.update(found)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found
