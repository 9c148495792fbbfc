"""Numbers as Chinese and Japanese write them: 三百二十, 300万, 1.5亿; and the counting words that may follow a number. Pure."""

from fractions import Fraction

_DIGITS = {**dict(zip("零一二三四五六七八九", range(10), strict=True)), "〇": 0, "两": 2, "兩": 2}
_TENS = {"十": 10, "百": 100, "千": 1_000}
LARGE = {"万": 4, "萬": 4, "亿": 8, "億": 8}
"""Powers of ten that multiply all that stands before them."""
COUNTERS = frozenset("年月日个個人名位座岁歲次层層本篇部家")
"""What may stand behind a number and be no unit: 1969年, 11个."""
SIGNS = frozenset((*_DIGITS, *_TENS, *LARGE))


def is_east_asian(char: str) -> bool:
    """Whether this is a Chinese character or kana, which stand next to numbers without a blank."""
    return "\u3040" <= char <= "\u30ff" or "\u3400" <= char <= "\u9fff"


def numeral(text: str, at: int) -> tuple[Fraction, int] | None:
    """The numeral that begins at a place, and its end; None where there is none, or its signs are in no order.

    Example: ``numeral("三百二十", 0)`` is 320 and 4
    """
    end = at
    while end < len(text) and text[end] in SIGNS and end < at + 24:
        end += 1
    run = text[at:end]
    if not run:
        return None
    if len(run) > 1 and all(sign in _DIGITS for sign in run):  # digit by digit: 一九六九
        return Fraction(int("".join(str(_DIGITS[sign]) for sign in run))), end
    total, section, digit = 0, 0, -1
    for sign in run:
        if sign in _DIGITS:
            if digit > 0:
                return None
            digit = _DIGITS[sign]
        elif sign in _TENS:
            section += (1 if digit < 0 else digit) * _TENS[sign]
            digit = -1
        else:
            total = (total + section + max(digit, 0)) * 10 ** LARGE[sign]
            section, digit = 0, -1
    return Fraction(total + section + max(digit, 0)), end
