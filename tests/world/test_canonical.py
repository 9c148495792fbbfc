"""Canonical URLs: idempotent for any text, one key for the spellings of one address, parentheses kept."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sanderling.world.addresses import _remembered, canonical_set, canonical_url

URL_TEXT = st.text(alphabet="ahttps:/.?#%25eE()[]@&=+ :8043\u00e9\u6771~'\"\\\n-_,;", max_size=40)


@given(st.one_of(st.text(max_size=60), URL_TEXT, st.builds("http{}://{}".format, st.sampled_from(["", "s"]), URL_TEXT)))
@example("http://a:80:80/")
@example("https:///../..//.")
@example("%68ttp://x.y/%2e%2E/a#b")
@example("x.com:443")
@example("https://\u00e9.\u6771:80./")
@example("https://a%2Fb%3A.\u00e9/c")
@example("//x.y//z")
@example("///x.y")
@example("\ud800/\x00")
@example("https://a.b/%%41%zz")
def test_idempotent(url):
    once = canonical_url(url)
    assert canonical_url(once) == once
    assert once.isascii()


@pytest.mark.parametrize(
    ("spelling", "key"),
    [
        ("HTTP://En.Wikipedia.ORG:80/wiki/Alien_%28film%29#Plot", "https://en.wikipedia.org/wiki/Alien_(film)"),
        ("en.wikipedia.org/wiki/Alien_(film)", "https://en.wikipedia.org/wiki/Alien_(film)"),
        ("https://de.wikipedia.org/wiki/Köln/", "https://de.wikipedia.org/wiki/K%C3%B6ln"),
        ("https://de.wikipedia.org/wiki/K%c3%b6ln", "https://de.wikipedia.org/wiki/K%C3%B6ln"),
        ("https://a.example", "https://a.example"),
        ("https://a.example/", "https://a.example"),
        ("https://a.example:8080/x/./y/../z", "https://a.example:8080/x/z"),
        ("https://web.archive.org/web/2020/http://b.example/", "https://web.archive.org/web/2020/http://b.example"),
        ("https://a.example/?b=2&a=1", "https://a.example?b=2&a=1"),
        ("https://a.example/a%2Fb", "https://a.example/a%2Fb"),
        ("https://a.example/a%2fb?c=%2fd%3F&e=%252F", "https://a.example/a%2Fb?c=/d?&e=%252F"),
        ("https://münchen.example/a", "https://xn--mnchen-3ya.example/a"),
        ("https://MÜNCHEN.example:443/a", "https://xn--mnchen-3ya.example/a"),
        ("http://m%C3%BCnchen.example./a", "https://xn--mnchen-3ya.example/a"),
        ("XN--MNCHEN-3ya.example/a", "https://xn--mnchen-3ya.example/a"),
        ("https://例え.テスト:8080/", "https://xn--r8jz45g.xn--zckzah:8080"),
        ("https://a%ff.example/", "https://a%ff.example"),
        ("//Cdn.Example/a", "https://cdn.example/a"),
        ("local://Ünter Lagen/a", "local://%c3%9cnter%20lagen/a"),
        ("local://42", "local://42"),
        ("notes/one", "notes/one"),
    ],
)
def test_spellings(spelling, key):
    assert canonical_url(spelling) == key


def test_different_pages_stay_different():
    assert canonical_url("https://a.example/Page") != canonical_url("https://a.example/page")
    assert canonical_url("https://a.example/p?id=1") != canonical_url("https://a.example/p?id=2")
    assert canonical_url("https://a.example/a%2Fb") != canonical_url("https://a.example/a/b")


def test_a_mask_is_a_set_of_keys():
    assert canonical_set(frozenset({"http://a.example/", "https://a.example"})) == {"https://a.example"}


def test_long_addresses_are_not_remembered():
    """Others ask a server for what they like: its memory must not grow with it."""
    long = "https://a.example/" + "a%20" * 1_000
    before = _remembered.cache_info()
    assert canonical_url(long) == canonical_url(canonical_url(long)) and _remembered.cache_info() == before
    canonical_url("https://a.example/short-and-new")
    assert _remembered.cache_info().currsize == min(before.currsize + 1, before.maxsize or 0)
