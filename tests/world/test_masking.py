"""Masks: pages, their near-duplicates and blocked sites are in no list and no page, and neither are links to them."""

import json
from collections.abc import Iterable

import pytest

from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Occasion, Page, World, answered
from sanderling.world.disk.duplicates import THRESHOLD, near_duplicates, save_groups, signature
from sanderling.world.disk.store import groups_file, load_groups
from sanderling.world.filters import MaskedWorld, filtered, read_blocklist, without_links
from sanderling.world.guard import Blocklist
from sanderling.world.local import LocalWorld

ORLO = "https://w.example/Orlo_(poet)"
COPY = "https://mirror.example/orlo"
TEXT = "Orlo was a poet of the northern coast who wrote forty odes to the tide, and kept a lighthouse there until he died."
PAGES = [
    Page(url=ORLO, title="Orlo", text=TEXT),
    Page(url=COPY, title="Orlo (copy)", text=TEXT + " Copied."),
    Page(url="https://leaks.example/quiz", title="Quiz", text="The answer to the poet quiz is Orlo."),
    Page(
        url="https://w.example/Poets",
        title="Poets",
        text="Read about [Orlo](/wiki/../Orlo_(poet)) or <http://w.example/Orlo_(poet)#life>, see "
        '[a copy](https://mirror.example/orlo "Orlo") and [Bex](https://w.example/Bex).\n\n'
        "Also www.leaks.example/quiz?page=2, he said. ![face](Orlo_%28poet%29)\n\n[1]: https://mirror.example/orlo 'x'\n",
    ),
]
GROUPS = [[ORLO, COPY]]


def world(groups=GROUPS, blocked: str = "") -> MaskedWorld:
    return MaskedWorld(LocalWorld.in_memory(PAGES, name="poets"), groups, Blocklist.parse(blocked))


@pytest.mark.parametrize("mask", [ORLO, COPY, "http://W.example/Orlo_%28poet%29/#life"])
def test_a_mask_reaches_near_duplicates_and_links(mask: str) -> None:
    masked = frozenset({mask})
    found = answered(world().search("Orlo poet copy", occasion=Occasion(masked=masked)))
    assert {hit.url for hit in found.hits} == {"https://leaks.example/quiz", "https://w.example/Poets"}
    for url in (ORLO, COPY):
        assert answered(world().visit(url, occasion=Occasion(masked=masked))).status is ToolStatus.NOT_FOUND
        assert answered(world().visit(url)).status is ToolStatus.OK
    read = answered(world().visit("https://w.example/Poets", occasion=Occasion(masked=masked))).text.rstrip()
    assert read == (
        "Read about Orlo or , see a copy and [Bex](https://w.example/Bex).\n\nAlso www.leaks.example/quiz?page=2, he said. face"
    )
    assert not any(name in hit.snippet for hit in found.hits for name in ("mirror.example", "Orlo_("))


HIDDEN = frozenset(
    {"https://h.example/wiki/Hid", canonical_url("https://zh.example/维基/外星人"), "https://h.example/a_(b_(c))"}
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[![face](x.png)](/wiki/Hid)", "face"),
        ("[see\n\tit](\n/wiki/Hid)", "see\n\tit"),
        (r"[x\]](/wiki/Hid)", r"x\]"),
        ("at https://h.example/a_(b_(c)), then", "at , then"),
        ("at h.example/wiki/Hid and //h.example/wiki/Hid", "at  and "),
        ("https://zh.example/维基/外星人。", "。"),
        ("https://archive.example/2020/https://h.example/wiki/Hid.", ""),
        ('<a class="r" href="/wiki/Hid">x</a> <a href=Hid>y</a>', '<a class="r">x</a> <a>y</a>'),
        ("https://h.example/wiki/Hidden joe@h.example/wiki/Hid [x](/wiki/Seen)", None),
    ],
)
def test_a_hidden_address_is_found_however_it_is_written(text: str, left: str | None) -> None:
    assert without_links(text, "https://h.example/wiki/Other", HIDDEN.__contains__) == (text if left is None else left)


def groups_of(pages: Iterable[Page], threshold: float = THRESHOLD) -> list[list[str]]:
    """Near-duplicates by address."""
    given = list(pages)
    signed = [(number, found) for number, page in enumerate(given) if (found := signature(page.text)) is not None]
    return [[given[number].url for number in group] for group in near_duplicates(signed, threshold)]


def test_a_worlds_directory_says_what_is_masked(tmp_path) -> None:
    local = LocalWorld.in_memory(PAGES, name="poets")

    def masked_world() -> World:
        groups = load_groups(tmp_path, local.fingerprint)
        return filtered(local, read_blocklist(tmp_path / "blocklist.txt"), groups=groups)

    with pytest.raises(UserError, match="cannot be read"):
        masked_world()
    save_groups(tmp_path, local.fingerprint, [])
    assert masked_world().fingerprint == local.fingerprint
    save_groups(tmp_path, local.fingerprint, groups_of(local.all_pages(), 0.7))
    (tmp_path / "blocklist.txt").write_text("leaks.example\n")
    opened = masked_world()
    assert opened.fingerprint != local.fingerprint and opened.name == "poets" and opened.page_count == 4
    assert [hit.url for hit in answered(opened.search("Orlo", occasion=Occasion(masked=frozenset({ORLO})))).hits] == [
        "https://w.example/Poets"
    ]
    path = tmp_path / groups_file(local.fingerprint)
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"fingerprint": "another"}))
    with pytest.raises(UserError, match="is damaged"):
        load_groups(tmp_path, local.fingerprint)
    path.write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        load_groups(tmp_path, local.fingerprint)
    (tmp_path / "blocklist.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="one host, URL or"):
        read_blocklist(tmp_path / "blocklist.txt")
