"""Addresses of files and links, written out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.world.sources.links import address, resolve


@pytest.mark.parametrize(
    ("page", "link", "full"),
    [
        ("https://w.example/a/b.html", "c.html", "https://w.example/a/c.html"),
        ("https://w.example/a/b.html", "../c_(d).html#e", "https://w.example/c_(d).html"),
        ("https://w.example/a/b.html", "/c?q=1&r", "https://w.example/c?q=1&r"),
        ("https://w.example/a/b.html", "//o.example/c", "https://o.example/c"),
        ("http://w.example/a/b.html", "c", "http://w.example/a/c"),
        ("local://docs/a/b.html", "c.html", "local://docs/a/c.html"),
        ("local://docs/a/b.html", "../../../c.html", "local://docs/c.html"),
        ("local://docs/a/b.html", "//o.example/c", "https://o.example/c"),
        ("local://docs/a/b.html", "https://o.example/c", "https://o.example/c"),
        ("https://w.example/a", "#top", ""),
        ("https://w.example/a", " ", ""),
        ("https://w.example/a", "MAILTO:x@w.example", ""),
        ("https://w.example/a", "data:text/html,x", ""),
        ("https://w.example/a", "http://[", ""),
    ],
)
def test_links(page, link, full):
    assert resolve(page, link) == full


def test_addresses_of_files():
    assert address("local://d/", "a b/c(1)#2?.html") == "local://d/a%20b/c(1)%232%3F.html"
    assert address("local://d/", b"caf\xe9.html") == "local://d/caf%E9.html"


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_link_breaks_it(page, link):
    assert isinstance(resolve(page, link), str)
    assert isinstance(resolve("local://" + page, link), str)
