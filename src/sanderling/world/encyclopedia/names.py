"""Invented names, from syllables, in two halves that share no word.

Every name word is two syllables of a fixed inventory, so a tokenizer that knows the syllables can spell names it never saw. A
hash of the word says which half it belongs to: worlds for training draw from one half, worlds for evaluation from the other,
whatever their seeds. Knows nothing of entities.
"""

import hashlib
import random
from enum import StrEnum

ONSETS = ("b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z")
VOWELS = ("a", "e", "i", "o", "u")
CODAS = ("d", "k", "l", "m", "n", "r", "s", "t")
SYLLABLES = tuple(onset + vowel + coda for onset in ONSETS for vowel in VOWELS for coda in CODAS)
SYLLABLE_LETTERS = 3
HELD_OUT_SHARE = 0.25


class Names(StrEnum):
    """Which half of all name words a world draws from."""

    TRAIN = "train"
    HELD_OUT = "held_out"


def half_of(word: str) -> Names:
    """Which half a name word belongs to. Depends on the word alone."""
    digest = hashlib.sha256(word.lower().encode()).digest()
    return Names.HELD_OUT if digest[0] < 256 * HELD_OUT_SHARE else Names.TRAIN


def draw_word(rng: random.Random, names: Names, syllables: int = 2, start: str = "") -> str:
    """One capitalised word of the given half, of so many syllables drawn behind ``start``."""
    while True:
        word = (start + "".join(rng.choice(SYLLABLES) for _ in range(syllables))).capitalize()
        if half_of(word) is names:
            return word
