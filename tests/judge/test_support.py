"""What passages are for a sentence: properties that hold for any wording, and the mechanisms one by one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.judge.items import Kind
from sanderling.judge.statements import stem, take_apart
from sanderling.judge.support import Support, support

PAGE = (
    "# Harbour of Velm\nThe harbour of Velm was founded in 1874 by the brothers Dirk and Hanno Steen. It had 2,600 workers.",
    "The lighthouse on the island of Orrin is 41 metres high. It was not damaged by the storm of 9 October 1987.",
    "## Ferries\nFerries to Sankt Joris take 50 minutes. Those to Lund may not carry lorries of more than 12 tonnes.",
    "| Year | Ships |\n|---|---|\n| 1900 | 312 |\n| 1950 | 877 |",
    "- The library holds 14,000 books\n- The museum, led by Vera Halm, holds 85 maps",
    '"We would rather be late than sorry," said the engineer Moira Tennant. Councillor Hugh Lanigan disagreed.',
)
SENTENCES = (
    "The harbour of Velm was founded in 1874 by the brothers Dirk and Hanno Steen.",
    "The lighthouse on the island of Orrin is 41 metres high.",
    "It was not damaged by the storm of 9 October 1987.",
    "Ferries to Sankt Joris take 50 minutes.",
    "Those to Lund may not carry lorries of more than 12 tonnes.",
    "The library holds 14,000 books",
    "The museum, led by Vera Halm, holds 85 maps",
    "Councillor Hugh Lanigan disagreed.",
)


def verdict(sentence: str, *passages: str) -> Support:
    return support(sentence, passages or PAGE).support


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_of_a_passage_is_supported_by_it(sentence: str):
    found = support(sentence, PAGE)
    assert found.support is Support.SUPPORTED and not found.missing
    assert found.passage is not None and sentence in PAGE[found.passage] and sentence in found.text


@given(sentence=st.sampled_from([one for one in SENTENCES if re.search(r"\d", one)]), other=st.integers(3, 99_999))
def test_with_another_number_it_is_not(sentence: str, other: int):
    number = re.findall(r"\d[\d,]*", sentence)[-1]
    changed = sentence.replace(number, str(other))
    assert (verdict(changed) is Support.SUPPORTED) == (str(other) == number.replace(",", ""))


NAMES = ("Velm", "Dirk", "Steen", "Orrin", "Joris", "Lund", "Halm", "Tennant", "Lanigan", "Brekke")


@given(sentence=st.sampled_from(SENTENCES), other=st.sampled_from(NAMES))
def test_with_another_name_it_is_not(sentence: str, other: str):
    held = [name for name in NAMES if name in sentence]
    if held and other not in held:
        assert verdict(sentence.replace(held[-1], other)) is not Support.SUPPORTED


@pytest.mark.parametrize(
    "sentence",
    [
        "The lighthouse on the island of Orrin is not 41 metres high.",
        "It was damaged by the storm of 9 October 1987.",
        "Those to Lund may carry lorries of more than 12 tonnes.",
        "The harbour of Velm was never founded in 1874 by the brothers Dirk and Hanno Steen.",
    ],
)
def test_a_negation_added_or_left_out_turns_it(sentence: str):
    assert verdict(sentence) is not Support.SUPPORTED


@given(st.text())
def test_any_text_gets_a_verdict(text: str):
    assert support(text, PAGE).support in Support
    assert support("The lighthouse is 41 metres high.", [text]).support in Support
    assert support(text, []).support is Support.NOT_FOUND


def test_what_was_not_read_is_not_found():
    assert verdict("Penguins of Antarctica lay one egg in 1999.") is Support.NOT_FOUND
    assert verdict("Photosynthesis turns light into sugar.") is Support.NOT_FOUND


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("The tower is 2.8 km long.", "The tower measures 2,800 metres."),
        ("The town has 38,214 inhabitants.", "The town has about 38,000 inhabitants."),
        ("The town has one hundred inhabitants.", "The town has 100 inhabitants."),
        ("The treaty was signed on 2 November 1871.", "The treaty was signed on 1871-11-02."),
        ("The treaty was signed on November 2nd, 1871.", "The treaty was signed in November 1871."),
        ("The chief financial officer leaves Norvane on 30 September.", "The CFO leaves Norvane at the end of September."),
        ("Members pay half the price.", "Members pay 50% of the price."),
        ("A lock expires after 6 hours.", "A lock expires after a quarter of a day."),
        ("The box holds 24 pots.", "The box holds two dozen pots."),
        ("Of the patients 10 % felt ill.", "One patient in ten felt ill."),
        ("The new release is 30–50% faster.", "The new release is 50% faster."),
        ("The bicycle weighs 29.5 kg.", "The bicycle weighs just under thirty kilograms."),
        ("The deposit went from 1,180 to 1,240 euros.", "The deposit is now sixty euros higher."),
        ("The fee is 18.70 euros a month.", "The fee comes to 224.40 euros a year."),
        ("Nitrate stood at 60 mg, where 50 mg are allowed.", "Nitrate was a fifth above what is allowed."),
        ("# Log of 2023\n\nOn 22 April the peppers came up.", "On 22/04/2023 the peppers came up."),
        ("The walk takes 2.5 hours.", "The walk takes two and a half hours."),
        ("Tom Lind came third in Velm.", "In Velm Tom Lind came in third."),
        ("The fare fell from 50 to 30 euros.", "From 50 to 30 euros the fare fell."),
        ("Set the key to `64`.", "Set the key to 64."),
        ("The docks hold 30 boats on the left and 12 boats on the right.", "Together both docks hold 42 boats."),
        ("The docks hold 30 boats on the left and 12 boats on the right.", "Together the docks hold 42 boats."),
        ("The docks hold 30 boats in Velm, 12 in Lund and 5 in Orrin.", "In total the docks hold 47 boats."),
        ("The key has at most `64` bytes.", "The key has at most 64 bytes."),
        ("The key has at most **64** bytes.", "The key has at most 64 bytes."),
        ("The key has at most <code>64</code> bytes.", "The key has at most 64 bytes."),
        ("The key has at most `64 bytes`.", "The key has at most 64 bytes."),
        ("The key has at most 64 bytes.", "The key has at most 64 `bytes`."),
        ("The town of _Velm_ was founded in _1874_.", "The town of Velm was founded in 1874."),
        ("Ada Vell died in 44 BC.", "Ada Vell died in 44 B.C.E."),
        ("Ada Vell died in AD 44.", "Ada Vell died in 44 CE."),
        ("Ada Vell reigned from 49 to 44 BC.", "From 49 BC on, Ada Vell reigned."),
        ("The bridge may be crossed by no more than 12 tonnes.", "No more than 12 tonnes may cross the bridge."),
        (
            "Call `gc.freeze()` to move objects to a permanent generation.",
            "Objects move to a permanent generation by gc.freeze.",
        ),
    ],
)
def test_the_same_in_other_units_forms_and_initials(said: str, asked: str):
    assert verdict(asked, said) is Support.SUPPORTED


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("The town has 38,214 inhabitants.", "The town has 38,000 inhabitants."),
        ("The pause is 2 milliseconds long.", "The pause is two seconds long."),
        ("The key has at most 64 bytes.", "The key has at least 64 bytes."),
        ("Hundreds of thousands of iterations are advised.", "Tens of thousands of iterations are advised."),
        ("The minimum is 12 bytes for keys.", "The maximum is 12 bytes for keys."),
        ("The state bears 60 per cent of the cost, but only for bridges.", "The state bears 60 per cent of the cost."),
        ("The walk takes 2 hours.", "The walk takes two and a half hours."),
        ("Set the key to `64`.", "Set the key to 65."),
        ("Ferries to Lundgren take 50 minutes.", "Ferries to Lund take 50 minutes."),
        ("The docks hold 30 boats on the left and 12 boats on the right.", "Together both docks hold 41 boats."),
        ("The docks hold 30 boats in Velm, 12 in Lund and 5 in Orrin.", "Together the docks hold 42 boats."),
        ("The key has at most `64` bytes.", "The key has at most 65 bytes."),
        ("The key has at most `64` bytes.", "The key has at most 64 bits."),
        ("The town of _Velm_ was founded in 1874.", "The town of _Lund_ was founded in 1874."),
        ("Ada Vell died in 44 BC.", "Ada Vell died in 44."),
        ("Ada Vell died in 44.", "Ada Vell died in 44 BC."),
        ("Ada Vell died in 44 BC.", "Ada Vell died in AD 44."),
        ("The docks hold 1, 2, 3, 4, 5, 6, 7, 8 and 9 boats.", "Together both docks hold 17 boats."),
        ("Revenue rose by 12% in 2019.", "Revenue fell by 12% in 2019."),
        ("Steam boats began in 1845.", "Steam boats ended in 1845."),
    ],
)
def test_near_misses_are_not(said: str, asked: str):
    assert verdict(asked, said) is not Support.SUPPORTED


def test_a_number_of_something_else_is_not_this_one():
    """What fits the rest better has another number, wherever else the claimed one stands."""
    rows = "| Item | Limit |\n|---|---|\n| relation size | 32 TB |\n| field size | 1 GB |"
    assert verdict("The size of a field is limited to 1 GB.", rows) is Support.SUPPORTED
    assert verdict("The size of a field is limited to 32 TB.", rows) is not Support.SUPPORTED
    entries = (
        "similarity_threshold\nSets the similarity threshold. The default is 0.3.",
        "word_similarity_threshold\nSets the word similarity threshold. The default is 0.6.",
    )
    assert verdict("The threshold of word similarity is 0.6 by default.", *entries) is Support.SUPPORTED
    assert verdict("The threshold of word similarity is 0.3 by default.", *entries) is not Support.SUPPORTED


def test_beside_its_word_stands_another_name():
    said = "- Pelle Arnt, chess grandmaster, grew up in Veldhaven but was born in Joris"
    assert verdict("Pelle Arnt was born in Joris.", said) is Support.SUPPORTED
    assert verdict("Pelle Arnt was born in Veldhaven.", said) is not Support.SUPPORTED


def test_a_number_of_a_table_belongs_to_its_column():
    rows = "| | Hauler | Pico |\n|---|---|---|\n| Weight, with battery | 58 kg | 29.5 kg |\n| Price | 5,490 | 3,180 |"
    assert verdict("With its battery the Pico weighs 29.5 kg.", rows) is Support.SUPPORTED
    assert verdict("With its battery the Pico weighs 58 kg.", rows) is not Support.SUPPORTED


def test_names_are_known_by_a_part_and_by_whom_the_page_is_about():
    page = (
        "Lease of 14 July, between Ingeborg Halloran and Jonas Feld.",
        "The kitchen remains as it is. The dishwasher goes to Mr Feld for 150 euros.",
    )
    assert verdict("The dishwasher goes to Jonas Feld for 150 euros.", *page) is Support.SUPPORTED
    assert verdict("The dishwasher goes to Ingeborg Feld for 150 euros.", *page) is not Support.SUPPORTED
    talk = ("# Agathe Rombach, tuner\nShe retires.", "In July my apprentice Jannis takes over the shop from me.")
    assert verdict("In July the apprentice Jannis takes over the shop from Rombach.", *talk) is Support.SUPPORTED


def test_a_name_right_before_a_statement_is_on_the_same_page():
    pages = "The painter Otto was taught by Ada Vell.", "Later the miller ran nine mills in Kent, which burned."
    for titles, expected in ((("Mills", "Mills"), True), (("Painters", "Mills"), False)):
        assert (support("Ada Vell ran nine mills in Kent.", pages, titles).support is Support.SUPPORTED) is expected


def test_names_are_joined_as_there_and_not_exchanged():
    said = "The holder of the patent is Lindqvist Pharma, Uppsala."
    assert verdict("The holder of the patent is Lindqvist Pharma.", said) is Support.SUPPORTED
    assert verdict("The holder of the patent is Uppsala Pharma.", said) is not Support.SUPPORTED
    said = "Norvane bought Brekke Canneries in 1998."
    assert verdict("Norvane bought Brekke Canneries in 1998.", said) is Support.SUPPORTED
    assert verdict("Brekke Canneries bought Norvane in 1998.", said) is not Support.SUPPORTED


def test_one_negation_more_in_a_long_sentence_turns_it():
    said = "If neither option is specified, the minimum of the current sequence is kept by the server."
    assert verdict(said, said) is Support.SUPPORTED
    assert verdict(said.replace("is specified", "is not specified"), said) is not Support.SUPPORTED


def test_two_clauses_may_be_said_in_two_places():
    said = ("`uuid3` makes an identifier with the hash MD5.", "Others say more.", "`uuid5` makes an identifier with SHA-1.")
    assert verdict("`uuid3` uses the hash MD5, and `uuid5` makes an identifier with SHA-1.", *said) is Support.SUPPORTED
    assert verdict("`uuid3` uses the hash MD5, and `uuid5` makes an identifier with MD5.", *said) is not Support.SUPPORTED


def test_what_stands_right_beside_a_name_tells_whose_it_is():
    said = "CPython 3.11 is 25% faster than CPython 3.10 when measured with the suite."
    assert verdict("Measured with the suite, CPython 3.11 is faster by 25%.", said) is Support.SUPPORTED
    said = "`-P` asks for the password, `-W` for the name.\nNew in version 3.8.\nopen(path) opens a path."
    assert verdict("The password is asked for by `-P`.", said) is Support.SUPPORTED
    assert verdict("The password is asked for by `-W`.", said) is not Support.SUPPORTED


def test_the_nearest_word_that_differs_tells_whose_it_is():
    said = "The northern basin is at most 4.5 metres deep; the southern basin is at least 6 metres deep."
    assert verdict("The northern basin is 4.5 metres deep.", said) is Support.SUPPORTED
    assert verdict("The northern basin is 6 metres deep.", said) is not Support.SUPPORTED
    said = "Anna Berg said that the pier would open in May. Her deputy, Tom Lind, expects June."
    assert verdict("Her deputy, Tom Lind, expects June.", said) is Support.SUPPORTED
    assert verdict("Anna Berg expects June.", said) is not Support.SUPPORTED


def test_a_clause_of_which_nothing_is_there_leaves_it_partly():
    said = "Of the sixty-one maps nine are on linen."
    assert verdict("Of the sixty-one maps nine are on linen.", said) is Support.SUPPORTED
    assert verdict("Of the sixty-one maps nine are on linen, and others show fantastic dragons.", said) is Support.PARTLY


def test_titles_headings_and_defined_terms_stand_above():
    page = ("# Norvane Pumps\nReport.", "## Outlook\nThe dividend will be 3 euros.")
    assert verdict("The dividend of Norvane will be 3 euros.", *page) is Support.SUPPORTED
    titles = ["Norvane Pumps", "Brekke Canneries"]
    assert support("The dividend of Norvane will be 3 euros.", page, titles).support is not Support.SUPPORTED
    assert support("The dividend of Brekke will be 3 euros.", page, titles).support is Support.SUPPORTED


def test_only_what_may_support_does_and_all_that_was_read_competes():
    first, second = PAGE[0], PAGE[1]
    sentence = "The lighthouse on the island of Orrin is 41 metres high."
    assert support(sentence, [first, second], among=[0]).support is not Support.SUPPORTED
    assert support(sentence, [first, second], among=[1]).passage == 1
    assert support(sentence, [first, second], among=[]).support is Support.NOT_FOUND


QUOTED = [
    ('According to her one "would be early rather than sorry".', Support.NOT_FOUND),
    ('Tennant said, "We would rather be late than sorry."', Support.SUPPORTED),
    ("Moira Tennant, an engineer, said: “We would rather be late than sorry.”", Support.SUPPORTED),
    ('The engineer "would rather be late than sorry".', Support.SUPPORTED),
    ('Hugh Lanigan said, "We would rather be late than sorry."', Support.PARTLY),
    ('Tennant said, "We would rather be early than sorry."', Support.NOT_FOUND),
    ('"We would not rather be late than sorry," said Tennant.', Support.NOT_FOUND),
]


@pytest.mark.parametrize(("sentence", "expected"), QUOTED)
def test_quotations(sentence: str, expected: Support):
    assert verdict(sentence) is expected


@pytest.mark.parametrize("marks", ['""', "“”", "„“", "«»", "»«"])
def test_a_quotation_stands_between_whatever_marks_its_language_has(marks: str):
    page = "Ada Vell nannte die Stadt im Mai 1803 schön und alt."
    said, wrong = (f"Ada Vell nannte die Stadt {marks[0]}{words}{marks[1]}." for words in ("schön und alt", "ganz schrecklich"))
    assert verdict(said, page) is Support.SUPPORTED and verdict(wrong, page) is Support.NOT_FOUND


def test_a_mark_of_inches_opens_no_quotation():
    said = 'The 5" pipe lies in Velm, as “an old map” shows.'
    assert verdict(said, said) is Support.SUPPORTED and verdict(said.replace("old", "odd"), said) is not Support.SUPPORTED


@pytest.mark.parametrize(
    "said", ['Dirk wrote "we regret the delay".', '"We regret the delay," wrote Dirk.', 'Dirk: "we regret the delay".']
)
@pytest.mark.parametrize("also", ["The harbour is old.", "The harbour is that of Hanno Steen and of Dirk."])
def test_a_quotation_is_of_whoever_said_it_though_a_name_alone_opens_the_sentence(said: str, also: str):
    for asked in ('{} wrote "we regret the delay".', '{}: "we regret the delay".', '{}\'s letter says "we regret the delay".'):
        assert verdict(asked.format("Dirk"), said, also) is Support.SUPPORTED
        assert verdict(asked.format("Hanno"), said, also) is Support.PARTLY
    residents = 'A resident wrote "we regret the delay".'
    assert verdict('Residents complained "we regret the delay".', residents, also) is Support.SUPPORTED


def test_a_quotation_stands_in_a_passage_that_writes_a_year_in_whatever_way():
    for year in ("44 B.C.", "44 B.C.E.", "AD 44", "44 CE"):
        assert verdict(f'The plate says "he died in {year} at Velm".', f"He died in {year} at Velm.") is Support.SUPPORTED


def test_a_quotation_of_two_pages_is_judged_by_the_page_of_whom_it_names():
    pages = ['The board wrote "we regret the delay" in May.'] * 2
    said = 'In May Norvane wrote "we regret the delay".'
    assert support(said, pages, ["Brekke Canneries", "Norvane Pumps"]).passage == 1
    found = support(said, pages, ["Brekke Canneries", "Lund"])
    assert (found.support, found.passage) == (Support.PARTLY, 0)


def test_a_quotation_from_which_the_denial_is_cut_is_not_supported():
    said = "We do not believe that the rain changed the result. Please note that the tenants may leave."
    assert verdict('They "do not believe that the rain changed the result".', said) is Support.SUPPORTED
    assert verdict('They do not "believe that the rain changed the result".', said) is Support.SUPPORTED
    assert verdict('They "believe that the rain changed the result".', said) is not Support.SUPPORTED
    assert verdict('It says "the tenants may leave".', said) is Support.SUPPORTED


def test_a_quotation_may_be_interrupted_and_its_speaker_may_open_the_sentence():
    said = '"The mountain is not high," she told us, "but it has no patience." Lars replied that "pensioners will give up".'
    also = "The chair Oonagh Pell thanked Lars."
    assert verdict('She said "the mountain is not high, but it has no patience".', said) is Support.SUPPORTED
    assert verdict('Lars said that "pensioners will give up".', said, also) is Support.SUPPORTED
    assert verdict('Oonagh Pell said that "pensioners will give up".', said, also) is not Support.SUPPORTED


def test_a_slip_of_the_pen_in_a_quotation_is_forgiven_but_no_other_word():
    said = "Our staff have managed with the old bus for 30 years."
    assert verdict('They "have manged with the old bus for 30 years".', said) is Support.SUPPORTED
    assert verdict('They "have managed with the old bus for 31 years".', said) is Support.NOT_FOUND
    assert verdict('They "have managed with the new bus for 30 years".', said) is Support.NOT_FOUND


def test_statements_are_taken_apart():
    found = take_apart("On 9 October 1987 `os.O_EXCL` cost Vera Halm and Dirk at least 12 tonnes.")
    assert [(item.kind, item.shown) for item in found.items] == [
        (Kind.DATE, "9 October 1987"),
        (Kind.CODE, "os.O_EXCL"),
        (Kind.NAME, "Vera"),
        (Kind.NAME, "Halm"),
        (Kind.NAME, "Dirk"),
        (Kind.NUMBER, "12 tonnes"),
    ]
    vera, halm, dirk, tonnes = found.items[2:]
    assert vera.group == halm.group != dirk.group and vera.row == halm.row == dirk.row and tonnes.hedge == "least"
    assert found.content == {"cost", "least"}
    assert stem("recompiles") == stem("recompiling") != stem("companies")


@pytest.mark.parametrize(
    ("sentence", "verdict"),
    [
        ("Ada Vell founded Kent in 1803.", Support.SUPPORTED),  # in the other voice, names stand in another order
        ("In 1803, Ada Vell founded Kent on the river Quoll.", Support.SUPPORTED),
        ("Kent has 12 cathedrals.", Support.PARTLY),  # a day is no count, and nobody spoke of cathedrals
        ("There are 12 mosques in Kent.", Support.PARTLY),
        ("Ada Vell was born in 1803.", Support.PARTLY),
    ],
)
def test_a_number_beside_a_name_is_no_claim_by_itself(sentence: str, verdict: Support) -> None:
    passages = [
        "Kent was founded by Ada Vell in 1803, on the north bank of the river Quoll.",
        "12 March 2023: we walked along the river in Kent.",
    ]
    assert support(sentence, passages, ["Kent", "Diary"]).support is verdict


TABLES = (
    "## Income (thousands of pounds)\n| | 2023 | 2022 |\n|---|---|---|\n| Staff costs | 1,462 | 1,388 |\n| Rent | 211 | 198 |",
    "| Task (vault with 50,000 notes) | 4.8 | 5.0 |\n|---|---|---|\n| Opening the vault | 3.1 s | 0.8 s |",
    "| | Basic | Plus |\n|---|---|---|\n| Small car, per hour | £4.20 | £2.30 |\n| Output at noon | 7.8 kW | 9.1 kW |",
)


@pytest.mark.parametrize(
    ("sentence", "supported"),
    [
        ("Staff costs came to £1.46 million in 2023.", True),
        ("Staff costs came to £1.39 million in 2023.", False),  # that is the other year's
        ("Staff costs rose from £1.39 million in 2022 to £1.46 million in 2023.", True),
        ("Staff costs rose from £1.46 million in 2022 to £1.39 million in 2023.", False),
        ("In version 5.0, opening a vault with 50,000 notes takes 0.8 seconds instead of 3.1.", True),
        ("In version 5.0, opening a vault with 50,000 notes takes 3.1 seconds.", False),
        ("In the Basic tariff a small car costs £4.20 per hour.", True),
        ("In the Basic tariff a small car costs £2.30 per hour.", False),
        ("The output of the Plus at noon is 9.1 kW.", True),
        ("The output of the Plus at noon is 9.1 MW.", False),
    ],
)
def test_a_number_of_a_table_is_that_of_the_column_that_is_named_in_the_unit_of_its_caption(sentence: str, supported: bool):
    assert (verdict(sentence, *TABLES) is Support.SUPPORTED) == supported


def test_a_paragraph_that_speaks_of_thousands_is_no_caption():
    said = "Thousands of visitors came to see the new engines on the day on which the museum was opened."
    table = f"{said}\n| Engine | Weight |\n|---|---|\n| Velmina | 41 |"
    assert verdict("The engine Velmina has a weight of 41.", table) is Support.SUPPORTED
    assert verdict("The engine Velmina has a weight of 41,000.", table) is not Support.SUPPORTED


@pytest.mark.parametrize(
    ("passage", "right", "wrong"),
    [
        (
            "Line 1 runs from Port Regent to Sandhaven every hour, line 2 to the Whale House at Cape Morley.",
            "Line 2 runs to the Whale House at Cape Morley.",
            "Line 1 runs from Port Regent to the Whale House at Cape Morley.",
        ),
        (
            "The outdoor unit is made in Brenau, the indoor unit in Lisle.",
            "The indoor unit is made in Lisle.",
            "The outdoor units are made in Lisle.",
        ),
        (
            "PyVelm is a binding to the Velm framework.",
            "PyVelm is a binding to Velm.",
            "tkinter is a binding to the Velm framework.",
        ),
        ("Consumption fell from 400 to 300 MWh a year.", "Consumption fell by 25%.", "Consumption fell by 35%."),
        (
            "When the debug mode is enabled:\n- Callbacks taking longer than 100 milliseconds are logged.",
            "In debug mode, every callback that takes longer than 100 milliseconds is logged.",
            "In debug mode, every callback that takes longer than 200 milliseconds is logged.",
        ),
        (
            "Each index tuple stores just the 4-byte hash value, not the actual column value.",
            "An index tuple stores the 4-byte hash value rather than the actual column value.",
            "An index tuple stores the actual column value rather than the 4-byte hash value.",
        ),
        (
            "The rule of 2021 applies not just to the 12 warehouses of Velm but to every ship in the harbour of Orrin.",
            "Since 2021, the 12 warehouses of Velm have been under the rule, which also applies to each ship in Orrin.",
            "Since 2021, the 14 warehouses of Velm have been under the rule, which also applies to each ship in Orrin.",
        ),
    ],
)
def test_what_a_sentence_joins_is_joined_in_the_passage(passage: str, right: str, wrong: str):
    assert verdict(right, passage) is Support.SUPPORTED
    assert verdict(wrong, passage) is not Support.SUPPORTED


def test_a_speaker_who_is_named_far_from_a_quotation_did_not_say_it():
    page = ['"I should only get it oily," she said.', *["Mina Stroud flew on."] * 14, "Hugo Lindqvist built engines."]
    assert verdict('Mina Stroud remarked: "I should only get it oily."', *page) is Support.SUPPORTED
    assert verdict('Hugo Lindqvist remarked: "I should only get it oily."', *page) is not Support.SUPPORTED


def test_each_sentence_is_found_in_its_own_passage_of_a_thousand():
    page = [f"The year {1000 + n} saw harbour {n} of Velm open. It had {n} workers and {n + 7} ships." for n in range(1_000)]
    for n in range(400, 425):
        assert support(f"Harbour {n} of Velm was opened in the year {1000 + n}.", page).passage == n


def test_sentences_and_passages_of_odd_length_are_checked():
    numbers = " ".join(f"word{n}x is {n}" for n in range(300))
    clauses = [f"Name{n} is {n} and word{n} has Other{n}" for n in range(240)]
    assert verdict(numbers, numbers) is Support.SUPPORTED
    assert verdict(", and ".join(clauses), ". ".join(clauses)) is not Support.SUPPORTED
    assert verdict("Velm won 7 to 5.", "Velm won 7 to 5. " + "1 to 2 " * 4_000) is Support.SUPPORTED
