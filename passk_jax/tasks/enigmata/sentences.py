"""English sentences from a small grammar, as capital letters without spaces.

No word has a J, because Playfair's square has none.
"""

from collections.abc import Callable, Sequence

from passk_jax.tasks.draws import Draws

# Parts of speech and their words, in the order of a sentence; a link starts the next.
_DETERMINER = 'THE THE A ONE THAT THIS EVERY ANOTHER'
_ADJECTIVE = (
    'OLD BRAVE QUIET CLEVER HUNGRY GOLDEN LITTLE TIRED BROKEN FAMOUS GENTLE STRANGE '
    'YOUNG PROUD LAZY GREEN FROZEN KIND SIMPLE ANCIENT EXACT DIZZY CURIOUS HEAVY'
)
_WHO = (
    'SAILOR TEACHER FARMER KING QUEEN DOCTOR BAKER PILOT WIZARD CAPTAIN NEIGHBOR FOX '
    'PAINTER GARDENER CHILD ARTIST SINGER HUNTER WAITER LION ZEBRA MONKEY RABBIT'
)
_VERB = (
    'PAINTED CARRIED WATCHED REPAIRED FOUND OPENED COVERED ADMIRED MOVED CLEANED SOLD '
    'BOUGHT DREW HID BORROWED DESCRIBED EXAMINED KEPT FIXED WANTED SHARED TOUCHED'
)
_OBJECT = (
    'BRIDGE LANTERN MIRROR BOTTLE WAGON PIANO LETTER TABLE BICYCLE BASKET CLOCK BOX '
    'VIOLIN HAMMER LADDER PICTURE BLANKET CARPET KNIFE QUILT WINDOW ENGINE CANDLE'
)
_PREPOSITION = 'NEAR BEHIND UNDER BESIDE ABOVE INSIDE BELOW BEYOND'
_WHERE = (
    'HARBOR FOREST MARKET TOWER GARDEN VALLEY CASTLE RIVER STATION TEMPLE SCHOOL CAVE '
    'MEADOW PALACE VILLAGE MUSEUM LIGHTHOUSE WORKSHOP SQUARE DESERT'
)
_LINK = 'AND WHILE BEFORE AFTER UNTIL BECAUSE BUT'
_SENTENCE = (
    *(_DETERMINER, _ADJECTIVE, _WHO, _VERB, _DETERMINER, _ADJECTIVE, _OBJECT),
    *(_PREPOSITION, _DETERMINER, _WHERE, _LINK),
)


def words(
    draws: Draws, length: int, *, accept: Callable[[str], bool] = lambda word: True
) -> list[str]:
    """Draws consecutive words of linked sentences, starting at any word.

    Args:
        draws: the random choices.
        length: the minimum number of letters.
        accept: which words to use; a part of speech without any is skipped.
    """
    parts = [[word for word in part.split() if accept(word)] for part in _SENTENCE]
    parts = [part for part in parts if part]
    place = draws.below(len(parts))
    chosen: list[str] = []
    while count_letters(chosen) < length:
        chosen.append(draws.choice(parts[place % len(parts)]))
        place += 1
    return chosen


def letters(draws: Draws, length: int) -> str:
    """Draws the first ``length`` letters of :func:`words`."""
    return ''.join(words(draws, length))[:length]


def count_letters(several: Sequence[str]) -> int:
    """Counts the letters of the words."""
    return sum(map(len, several))
