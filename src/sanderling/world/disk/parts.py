"""Finished parts of a world: what is added to one so that pages are found in it, and the comparison of all of them."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import groupby
from pathlib import Path

from sanderling.world.addresses import canonical_url
from sanderling.world.disk.index import is_whole
from sanderling.world.disk.pages import (
    BUCKET_PAGES,
    NUMBER_BYTES,
    DamageError,
    Intake,
    bucket_of,
    checksum,
    read_only_uri,
    short_key,
    writable,
)
from sanderling.world.disk.store import load_groups, open_pages, read_manifest


def absorb(file: Path, parts: Sequence[Path]) -> None:
    """Take the pages of finished parts over into the finished file after them, and make it one to find pages in.

    Raises UserError.
    """
    with writable("the pages", sqlite3.Error), closing(sqlite3.connect(file.as_uri(), uri=True)) as connection:
        for part in parts:
            connection.execute("ATTACH ? AS part", (read_only_uri(part),))
            with connection:
                for name in ("pages", "signatures"):
                    connection.execute(f"INSERT OR IGNORE INTO main.{name} SELECT * FROM part.{name}")
            connection.execute("DETACH part")
        with connection:
            _write_buckets(connection)


def _write_buckets(connection: sqlite3.Connection) -> None:
    """Make the table by which the pages of a finished part are found; several runs of this make the same one."""
    pages = connection.execute("SELECT count(*) FROM pages").fetchone()[0]
    connection.create_function("bucket_of", 1, lambda key: bucket_of(short_key(key.encode()), pages), deterministic=True)
    connection.execute("DROP TABLE IF EXISTS buckets")
    connection.execute("CREATE TABLE buckets (bucket INTEGER PRIMARY KEY, entries BLOB NOT NULL, checksum INTEGER NOT NULL)")
    rows = connection.execute("SELECT bucket_of(key), key, number FROM pages ORDER BY 1, 3")
    empty = ((bucket, b"") for bucket in range(pages // BUCKET_PAGES + 1))
    filled = (
        (bucket, b"".join(short_key(key.encode()) + number.to_bytes(NUMBER_BYTES) for _, key, number in found))
        for bucket, found in groupby(rows, key=lambda row: row[0])
    )
    for entries in (empty, filled):
        sealed = ((bucket, held, checksum(b"%d" % bucket, held)) for bucket, held in entries)
        connection.executemany("INSERT OR REPLACE INTO buckets VALUES (?, ?, ?)", sealed)


def verify_world(directory: Path, progress: Callable[[int], None] = lambda _: None) -> tuple[int, list[str]]:
    """Compare pages, index and groups with their checksums: how many pages there are, and what is damaged, each in a line.

    Raises UserError where it cannot even be opened.
    """
    info, damaged, intake = read_manifest(directory), list[str](), Intake()
    pages, index = open_pages(directory, info), directory / info.index

    def check(look: Callable[[], object]) -> None:
        try:
            look()
        except DamageError as error:
            damaged.append(error.reason)

    def look_at(number: int) -> None:
        page = pages.get(number)
        intake.chain(page)
        if pages.find(canonical_url(page.url)) != number:
            raise DamageError(directory, f"{page.url} is not found by its address")

    for number in range(info.page_count):
        check(partial(look_at, number))
        progress(number + 1)
    if not damaged and intake.fingerprint != info.fingerprint:
        damaged.append("the pages are not those that the manifest was written for")
    check(lambda: sum(1 for _ in pages.signatures()))
    check(lambda: load_groups(directory, info.fingerprint))
    if not is_whole(index, info.page_count, compared=True):
        damaged.append(f"{index.name} does not agree with its checksums; it is made anew when the world is next searched")
    return info.page_count, damaged
