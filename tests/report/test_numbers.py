"""Numbers as people read them."""

from sanderling.report.numbers import duration, percent, points, span


def test_numbers_in_words() -> None:
    assert [duration(s) for s in (0.04, 9.96, 59.6, 245, 3599.7, 7800)] == [
        "0.0 s",
        "10 s",
        "1 min 00 s",
        "4 min 05 s",
        "1 h 00 min",
        "2 h 10 min",
    ]
    assert (percent(None), percent(0.4156), points(-0.012)) == ("–", "41.6%", "−1.2")
    assert span((0.1, 0.25)) == "10.0–25.0"
