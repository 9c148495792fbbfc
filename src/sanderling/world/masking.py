"""What a question must not see: its source pages, their near-duplicates, blocked sites, and links to any of them.

`MaskedWorld` puts this around any world. A hidden page is in no list of results and is NOT_FOUND when visited; a link to it
keeps its words and loses its address, and its address, written out, is gone from texts and snippets. Near-duplicates come as
groups of URLs, blocked sites as a `Blocklist`; both are data. Words that a page quotes from a hidden one stay. Opens no socket.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.world.blocked_addresses import Blocklist
from sanderling.world.canonical import canonical_set, canonical_url
from sanderling.world.contract import NO_OCCASION, Occasion, SearchesTogether, SearchHit, SearchReply, VisitReply, World
from sanderling.world.duplicates import load_groups
from sanderling.world.hidden_links import Hidden, without_links

BLOCKLIST_FILE = "blocklist.txt"


class MaskedWorld(SearchesTogether):
    """A world in which masks reach near-duplicates, and blocked sites do not exist.

    Args:
        world: whose pages these are.
        groups: near-duplicates by URL (`duplicates.near_duplicates`).
        blocklist: what is hidden from every question.

    """

    def __init__(self, world: World, groups: Sequence[Sequence[str]] = (), blocklist: Blocklist | None = None) -> None:
        self._world = world
        self._blocklist = blocklist or Blocklist()
        self._group_of: dict[str, frozenset[str]] = {}
        for group in groups:
            keys = frozenset(canonical_url(url) for url in group)
            self._group_of.update(dict.fromkeys(keys, keys))
        self._expanded: Callable[[frozenset[str]], frozenset[str]] = lru_cache(maxsize=256)(self._expand)
        parts = [sorted({tuple(sorted(group)) for group in self._group_of.values()})]
        parts += [sorted(self._blocklist.hosts), sorted(self._blocklist.prefixes)]
        parts += [sorted(self._blocklist.paths)] if self._blocklist.paths else []
        changed = self._group_of or self._blocklist
        digest = hashlib.sha256(json.dumps([world.fingerprint, *parts]).encode()).hexdigest()
        self._fingerprint = digest if changed else world.fingerprint

    @property
    def name(self) -> str:
        return self._world.name

    @property
    def fingerprint(self) -> str:
        """That of the world, or one of its own where groups or blocked sites change what it answers."""
        return self._fingerprint

    @property
    def page_count(self) -> int:
        """Pages of the world, hidden ones included."""
        return self._world.page_count

    @property
    def waits(self) -> bool:
        return self._world.waits

    def search_many(
        self,
        queries: Sequence[str],
        *,
        limit: int = 10,
        snippet_words: int = 30,
        occasion: Occasion = NO_OCCASION,
    ) -> tuple[SearchReply, ...]:
        """Rank pages; see `contract.World`. Asks for more results until enough are not blocked."""
        keys = self._expanded(occasion.masked)
        if not keys and not self._blocklist:
            return self._world.search_many(queries, limit=limit, snippet_words=snippet_words, occasion=occasion)
        hidden = self._hidden(keys)
        wanted, within = limit, replace(occasion, masked=keys)
        found: dict[int, SearchReply] = {}
        while missing := [number for number in range(len(queries)) if number not in found]:
            asked = [queries[number] for number in missing]
            replies = self._world.search_many(asked, limit=wanted, snippet_words=snippet_words, occasion=within)
            for number, reply in zip(missing, replies, strict=True):
                shown = [hit for hit in reply.hits if not hidden(canonical_url(hit.url))]
                if len(shown) >= limit or len(reply.hits) < wanted:
                    found[number] = reply_with(reply, shown[:limit], hidden)
            wanted *= 2
        return tuple(found[number] for number in range(len(queries)))

    def visit(
        self,
        url: str,
        goal: str = "",
        *,
        max_words: int = 2000,
        occasion: Occasion = NO_OCCASION,
    ) -> VisitReply:
        """Read a page; see `contract.World`."""
        keys = self._expanded(occasion.masked)
        if not keys and not self._blocklist:
            return self._world.visit(url, goal, max_words=max_words, occasion=occasion)
        hidden = self._hidden(keys)
        if hidden(canonical_url(url)):
            return VisitReply(url=url, title="", text="", status=ToolStatus.NOT_FOUND)
        reply = self._world.visit(url, goal, max_words=max_words, occasion=replace(occasion, masked=keys))
        return replace(
            reply, text=without_links(reply.text, reply.url, hidden), title=without_links(reply.title, reply.url, hidden)
        )

    def _expand(self, masked: frozenset[str]) -> frozenset[str]:
        keys = canonical_set(masked)
        return keys.union(*(self._group_of[key] for key in keys if key in self._group_of))

    def _hidden(self, keys: frozenset[str]) -> Hidden:
        return lambda key: key in keys or self._blocklist.blocks(key)


def reply_with(reply: SearchReply, hits: Sequence[SearchHit], hidden: Hidden) -> SearchReply:
    """A reply with some of its hits, and no link to a hidden page in them: EMPTY where none is left."""
    clean = tuple(
        replace(hit, snippet=without_links(hit.snippet, hit.url, hidden), title=without_links(hit.title, hit.url, hidden))
        for hit in hits
    )
    status = ToolStatus.EMPTY if reply.status is ToolStatus.OK and not clean else reply.status
    return SearchReply(reply.query, clean, status, reply.latency_s)


def masked_world(world: World, directory: Path, pages: str = "") -> World:
    """A world with what its directory says about masking: its near-duplicates, and ``blocklist.txt`` where there is one.

    ``pages``: the fingerprint of the pages alone, where the world's own says more. Raises UserError when a file cannot be used.
    """
    groups = load_groups(directory, pages or world.fingerprint)
    return MaskedWorld(world, groups, read_blocklist(directory / BLOCKLIST_FILE))


def read_blocklist(path: Path) -> Blocklist:
    """The blocklist of a file; an empty one when there is no file. Raises UserError when it cannot be read."""
    try:
        return Blocklist.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Blocklist()
    except UserError:
        raise
    except (OSError, ValueError) as error:
        raise UserError(
            f"The blocklist {path} cannot be read ({error}): write one host, URL or */path a line, in UTF-8."
        ) from error
