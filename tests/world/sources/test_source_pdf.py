"""PDF files that the tests write: text, facts, encryption, damage."""

import io
import random

import pypdf
import pytest

from sanderling.world.sources.base import Document, Limits, Reason
from sanderling.world.sources.documents import read_pdf


def written(texts: list[str], password: str | None = None, owner: str | None = None) -> bytes:
    """A PDF with one line on each page."""
    writer = pypdf.PdfWriter()
    name, table = pypdf.generic.NameObject, pypdf.generic.DictionaryObject
    font = table({name("/Type"): name("/Font"), name("/Subtype"): name("/Type1"), name("/BaseFont"): name("/Helvetica")})
    fonts = table({name("/F1"): writer._add_object(font)})
    for text in texts:
        page = writer.add_blank_page(600, 200)
        page[name("/Resources")] = table({name("/Font"): fonts})
        stream = pypdf.generic.StreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
        page[name("/Contents")] = writer._add_object(stream)
    writer.add_metadata({"/Title": "Of herring", "/CreationDate": "D:20200301120000Z"})
    if password is not None:
        writer.encrypt(password, owner)
    held = io.BytesIO()
    writer.write(held)
    return held.getvalue()


def test_text_title_and_day():
    found = read_pdf(written(["First page.", "", "Third page."]), Limits())
    assert found == Document("Of herring", "First page.\n\nThird page.", (), "2020-03-01")


def test_encrypted():
    assert read_pdf(written(["Secret"], "word"), Limits()) is Reason.ENCRYPTED
    opened = read_pdf(written(["Not printed, but read."], "", "owner"), Limits())
    assert isinstance(opened, Document) and "Not printed" in opened.text


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", Reason.EMPTY), (b"%PDF-1.4", Reason.DAMAGED), (b"hello", Reason.DAMAGED), (b"x" * 200_000, Reason.TOO_LARGE)],
)
def test_what_is_none(data, reason):
    assert read_pdf(data, Limits(document_bytes=100_000)) is reason


def test_without_words_and_with_too_many_pages():
    assert read_pdf(written(["", ""]), Limits()) is Reason.EMPTY
    assert read_pdf(written(["a"] * 4), Limits(pdf_pages=3)) is Reason.TOO_LARGE


def test_damage_anywhere_is_a_reason_or_a_text():
    whole = written(["First page.", "Second page."])
    rng = random.Random(0)
    seen = set()
    for _ in range(150):
        data = bytearray(whole[: rng.randrange(len(whole) // 2, len(whole))] if rng.random() < 0.5 else whole)
        for _ in range(rng.randrange(1, 12)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        found = read_pdf(bytes(data), Limits())
        assert isinstance(found, Document | Reason)
        seen.add(type(found))
    assert seen == {Document, Reason}
