"""Numbers and units as people write them: golden pairs, and what no rule may decide."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.judge.numeric import compare, quantities

SAME = [
    ("42", "42"), ("42.0", "42"), ("1,234", "1234"), ("1 234 567", "1,234,567"), ("1\u202f234", "1234"),
    ("1'234'567", "1234567"), ("12,34,567", "1234567"), ("1.234.567", "1234567"), ("1.234,5", "1234.5"), ("1,234.5", "1234.5"),
    ("3,5", "3.5"), ("3.2 million", "3,200,000"), ("3,214,000", "3.2 million"), ("3.2M", "3.2 million"), ("5k", "5000"),
    ("$5bn", "$5 billion"), ("2 crore", "20 million"),
    ("−5", "-5"), ("minus 5", "-5"),
    ("forty-two", "42"), ("twenty-one thousand three hundred", "21300"), ("two hundred and five", "205"),
    ("three million", "3,000,000"), ("It was 42 in all.", "42"), ("about 42 people", "42"), ("42", "about 42 people"),
    ("12%", "12 percent"), ("0.12", "12%"), ("12", "12%"), ("12 per cent", "12%"), ("the 3rd", "3"), ("5 km", "5000 m"),
    ("5 kilometres", "5km"), ("3.1 miles", "5 km"), ("1.6 km", "1 mile"), ("8,849 m (29,032 ft)", "8,849 metres"),
    ("29,032 ft", "8,849 m"), ("5 ft 11 in", "180 cm"), ("5'11\"", "71 inches"), ("183 cm", "6 ft"),
    ("2 hours and 30 minutes", "150 min"), ("2h 30min", "2.5 hours"), ("22 lb", "10 kg"), ("10 pounds", "10 lb"),
    ("$10", "10 dollars"), ("10 pounds", "£10"), ("US$ 10", "10 USD"), ("37.8 °C", "100 °F"), ("25 degrees Celsius", "25 °C"),
    ("25°", "25 °C"), ("300 K", "26.85 °C"), ("100 km/h", "62 mph"), ("10 acres", "4.05 ha"), ("1 sq mi", "2.59 km²"),
    ("500 ml", "0.5 litres"), ("1 kWh", "3.6 MJ"), ("18 months", "1.5 years"), ("42 km", "42"), ("42", "42 km"),
    ("a 300-metre tower", "300 m"), ("1 GiB", "1024 MiB"), ("2 decades", "20 years"),

    ("8 in Rome", "8 in"),
    ("between 1969", "1969"), ("It is 5.", "5"), ("1,000", "1000"), (".5", "0.5"), ("3.14159", "3.14"), ("5 in", "5 inches"),
    ("minus five degrees", "-5 °C"), ("44 BC", "44 BC"), ("the 1960s", "1960s"),
]  # fmt: skip
OTHER = [
    ("8 in Rome", "9"), ("one two", "3"), ("43", "42"), ("1969.4", "1969"), ("1968", "1969"), ("3.26", "3.2"),
    ("3.3 million", "3.2 million"), ("3.2 billion", "3.2 million"), ("1.234", "1234"), ("5 miles", "5 km"), ("5 kg", "5 km"),
    ("29,000 ft", "8,849 m"), ("€10", "$10"), ("25 °F", "25 °C"), ("3 miles", "5 km"), ("-5", "5"), ("no idea", "42"),
    ("", "42"), ("5 MW", "5 mW"),
    ("15", "12%"), ("COVID-19", "19"), ("B2", "2"),
    ("six", "60"), ("fifty", "15"), ("1.6 km", "1.7 miles"), ("0.5%", "50%"),
    ("100 BC", "100 AD"),
]  # fmt: skip
UNSURE = [
    ("Apollo 11", "Apollo 11"), ("Gemini 11", "Apollo 11"), ("Oslo", "Rome"), ("10", "10 to 12"), ("11", "10-12"),
    ("5", "5 or 6"), ("5 or 6", "5"), ("in 1999 there were 8", "8"), ("5 tons", "5 tonnes"), ("5 gallons", "19 l"),
    ("1 year", "365 days"), ("3/4/1969", "3 April 1969"), ("1.2.3", "1.2.3"), ("5", ""), ("8 in 1999", "8"),
    ("5 5", "six five nine"), ("12345678901", "1" * 60), ("3–5 km", "3 km"), ("3 km to 5 km", "3 km"), ("5-6", "5"),
    ("6", "5-6"), ("3:1", "3"), ("12:30", "12"), ("half", "0.5"), ("two thirds", "2/3"), ("a dozen", "12"), ("first", "1"),
    ("none", "0"), ("10^5", "100000"), ("1 in 5", "20%"), ("$5m", "$5 million"), ("nineteen sixty-nine", "1969"),
    ("1960s", "1960"), ("1e101", "7"),
    ("1/2", "1"), ("3½", "3"), ("6.02e23", "6"), ("20 July 1969", "July 20, 1969"),
    ("1969-07-20", "1969-07-20"), ("20.7.1969", "20.7.1969"), ("July 1969", "July 1969"),
    ("July '69", "1969"), ("20 Jul 69", "1969"), ("20-Jul-1969", "1969"), ("mid-1969", "1969"), ("19690720", "1969"),
    ("5公里", "5000 m"), ("5\u202fx10^3", "Rome"), ("8,1.234,5", "8"), ("2 × 10⁻", "Rome"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "accepted", "match"),
    [(*pair, match) for match, pairs in ((True, SAME), (False, OTHER), (None, UNSURE)) for pair in pairs],
)
def test_the_same_quantity_another_or_unsure(answer: str, accepted: str, match: bool | None) -> None:
    assert compare(answer, accepted) is match


@given(
    st.text(alphabet=st.sampled_from("0123456789.,-+/eEx×^ ½²km°C%$'\"()ftinaMBKth\u2212\u202f"), max_size=60),
    st.text(max_size=20),
)
def test_no_text_breaks_the_reading(text: str, other: str) -> None:
    for quantity in quantities(text + other):
        assert 0 <= quantity.start < quantity.end <= len(text + other)
        assert quantity.grain >= 0
    assert {compare(text, other), compare(other, text)} <= {True, False, None}
