import pytest

from passk_jax.verifiers.number_words import read_number

ONES = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine']
TEENS = ['ten', 'eleven', 'twelve', 'thirteen', 'fourteen', 'fifteen', 'sixteen']
TEENS += ['seventeen', 'eighteen', 'nineteen']
TENS = ['twenty', 'thirty', 'forty', 'fifty', 'sixty', 'seventy', 'eighty', 'ninety']


def spell(number: int) -> str:
    """Spells a number below 10^12, as schools teach it."""
    for scale, name in ((10**9, 'billion'), (10**6, 'million'), (1000, 'thousand')):
        if number >= scale:
            remainder = f' {spell(number % scale)}' if number % scale else ''
            return f'{spell(number // scale)} {name}{remainder}'
    if number >= 100:
        remainder = f' and {spell(number % 100)}' if number % 100 else ''
        return f'{ONES[number // 100 - 1]} hundred{remainder}'
    if number >= 20:
        last = f'-{ONES[number % 10 - 1]}' if number % 10 else ''
        return TENS[number // 10 - 2] + last
    return ['zero', *ONES, *TEENS][number]


def test_every_number_is_read_as_it_is_spelt():
    numbers = [*range(2000), *(7**n % 10**12 for n in range(200)), 10**12 - 1]
    for number in numbers:
        words = spell(number)
        assert read_number(words) == number
        assert read_number(words.replace(' and ', ' ').replace('-', ' ')) == number


@pytest.mark.parametrize(
    ('words', 'number'),
    [
        ('Twelve Hundred', 1200),
        ('a thousand', 1000),
        ('a hundred', 100),
        ('hundred', 100),
        ('one-hundred', 100),
        ('twelve hundred and seven', 1207),
    ],
)
def test_numbers_as_people_say_them(words, number):
    assert read_number(words) == number


@pytest.mark.parametrize(
    'words',
    [
        '',
        'a',
        'and',
        'five six',
        'twenty eleven',
        'two hundred apples',
        'twenty - one',
        '-five',
        'five-',
        'thousands',
        'two thousands',
        'one hundred thousand hundred',
        'thousand five',
        'a thousand thousand',
        'two thousand million',
        'one hundred hundred',
        'zero thousand',
        'one thousand and',
        'one hundred zero',
        'five thousand six million',
        'forty-two point five',
    ],
)
def test_other_words_are_no_number(words):
    assert read_number(words) is None
