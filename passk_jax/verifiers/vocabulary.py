"""Words and signs that the readers of mathematics know."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GREEK = _words("""
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma
    tau upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi
    Omega ell hbar
""")
# In alphabetical order.
GREEK_LETTERS = _words("""
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi
    rho varsigma sigma tau upsilon phi chi psi omega
""")
GREEK_CAPITALS = _words('gamma delta theta lambda xi pi sigma phi psi')

_NUMBERS = _words("""
    zero one two three four five six seven eight nine ten eleven twelve thirteen
    fourteen fifteen sixteen seventeen eighteen nineteen twenty
""")
_TENS = _words('twenty thirty forty fifty sixty seventy eighty ninety')
NUMBERS = {
    **{name: str(number) for number, name in enumerate(_NUMBERS)},
    **{name: f'{number}0' for number, name in enumerate(_TENS, 2)},
    **{
        f'{tens}{joint}{name}': f'{first}{last}'
        for first, tens in enumerate(_TENS, 2)
        for last, name in enumerate(_NUMBERS[:10])
        for joint in '- '
        if last
    },
}
MONTHS = _words("""
    January February March April May June July August September October November
    December
""")
BASES = {'binary': '2', 'octal': '8', 'hex': '16', 'sixteen': '16'}

# Words even without \text; other pairs of small letters are products.
SHORT_WORDS = frozenset(_words('no yes on up'))
# Names of constants, which are not words.
FORMULAS = frozenset(_words('pi infinity inf oo theta alpha beta gamma lambda'))
NO_SOLUTION = frozenset(
    ('none', 'empty', 'empty set', 'the empty set', '无解', '空集', '无实数解')
).union(
    f'{begin}no {real}solution{plural}'
    for begin in ('', 'there is ', 'there are ')
    for real in ('', 'real ')
    for plural in ('', 's', ' exists', 's exist')
)
NO_VALUE = frozenset(('dne', 'undefined', 'not defined', '不存在')).union(
    f'{thing}does not exist' for thing in ('', 'it ', 'limit ', 'the limit ')
)
SYNONYMS = NO_SOLUTION, NO_VALUE
# The set of all real numbers.
REALS = frozenset(('实数集', '全体实数', '一切实数', 'all real x')).union(
    f'{every}{real}{plural}'
    for every in ('all ', 'any ', 'the set of all ', 'the set of ', '')
    for real in ('real number', 'real')
    for plural in ('', 's')
) - {'real'}

_FIRST_ORDINALS = 'third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth'
_LAST_ORDINALS = _words("""
    thir four fif six seven eigh nine twentie thirtie fortie fiftie sixtie seventie
    eightie ninetie hundred thousand million billion trillion
""")
# With a number before them they are fractions.
ORDINALS = frozenset(
    f'{ordinal}{plural}'
    for ordinal in (
        *_words(_FIRST_ORDINALS),
        *(f'{name}teenth' for name in _LAST_ORDINALS[:7]),
        *(f'{name}th' for name in _LAST_ORDINALS[7:]),
    )
    for plural in ('', 's')
)
# Words that never belong to the name of a thing: they compare, join, doubt or compute.
NO_NAMES = (
    frozenset(
        _words("""
    or and to not no nor than then less more greater higher lower beyond least
    most between about around nearly almost roughly approximately approx maybe perhaps
    possibly probably ish if when where mod modulo is are equals except without unless
    instead otherwise but plus minus times over under above below none never cannot
    undefined unknown impossible infinity infinite either neither both true false wrong
    incorrect invalid yes am pm a.m p.m half halves twice thrice doubled tripled squared
    cubed power factorial choose inverse reciprocal square-root cube-root binary octal
    hex hexadecimal ppm permille
    sqrt log ln lg sin cos tan cot sec csc exp abs
    或 和 与 不 无 是 否 且 至 到 非 没有 以上 以下 以内 大于 小于 分之 多 余
""")
    )
    | ORDINALS
    | frozenset(name.lower() for name in (*GREEK, *GREEK_LETTERS))
)
# Words in a side of an equation that deny it, or deduce it from another answer.
DENIALS = frozenset(_words('not nor never but iff wrong false incorrect unless except'))
DEDUCTIONS = frozenset(
    _words('if when because since so then hence implies gives yields')
)
# A side of an equation that is such a word is an answer itself.
VERDICTS = frozenset(_words('yes no none even odd true undefined dne impossible'))
# Names of things with three letters; longer names need no list.
SHORT_NAMES = frozenset(
    _words('men day won cup bus pen box cat dog egg sec pie row way set')
)
# Units that need no \text; the longer ones need no blank before them either.
UNIT_LETTERS = frozenset((*'msgL', 'Omega'))
UNIT_SYMBOLS = frozenset(
    _words("""
    cm mm dm km nm kg mg ml mL lb lbs oz ft yd mi hr hrs min sec mph kph kmh rad deg Hz
    kHz kJ kW USD EUR GBP RMB gal ha
""")
)
_SCALES = {
    **{'dozen': 12, 'ten': 10, 'hundred': 10**2, 'thousand': 10**3, 'lakh': 10**5},
    **{'million': 10**6, 'crore': 10**7, 'billion': 10**9, 'trillion': 10**12},
}
SCALES = {
    **_SCALES,
    **{f'{name}s': scale for name, scale in _SCALES.items()},
    **{'score': 20, 'gross': 144, '百': 10**2, '千': 10**3, '万': 10**4, '亿': 10**8},
}
POWERS = {'square': 2, 'sq': 2, 'cubic': 3, 'cu': 3, '平方': 2, '立方': 3}
# Words that exclude one another, beside a number or a unit.
OPPOSITES = (
    _words('odd even'),
    _words('north south east west northeast northwest southeast southwest'),
    _words('increase decrease'),
    _words('clockwise counterclockwise'),
    _words('minimum maximum'),
    _words('left right'),
    _words('up down'),
    _words('forward backward'),
    _words('ahead behind'),
    _words('before after'),
    _words('inside outside'),
)
# A word of OPPOSITES -> others of its sense.
SAME_SENSES = {
    'increase': _words('gain profit rise surplus'),
    'decrease': _words('loss fall drop deficit'),
    'counterclockwise': _words('anticlockwise'),
    'left': _words('leftward leftwards'),
    'right': _words('rightward rightwards'),
    'up': _words('upward upwards'),
    'down': _words('downward downwards'),
    'forward': _words('forwards'),
    'backward': _words('backwards'),
    'before': _words('earlier'),
    'after': _words('later'),
}

# Dimension: factor and names of each unit.
UNITS = """
length: 1 m meter meters metre metres 米,
    1/100 cm centimeter centimeters centimetre centimetres 厘米,
    1/10 dm decimeter decimeters 分米,
    1/1000 mm millimeter millimeters millimetre millimetres 毫米,
    1000 km kilometer kilometers kilometre kilometres 千米 公里,
    1/1000000 micrometer micrometers micrometre micrometres micron microns,
    1/1000000000 nm nanometer nanometers nanometre nanometres,
    127/5000 in inch inches,
    381/1250 ft foot feet, 1143/1250 yd yard yards, 201168/125 mi mile miles
length^2: 10000 ha hectare hectares 公顷, 316160658/78125 acre acres
length^3: 1/1000 l L liter liters litre litres 升,
    1/1000000 ml mL milliliter milliliters millilitre millilitres 毫升,
    473176473/125000000000 gal gallon gallons,
    473176473/500000000000 quart quarts, 473176473/1000000000000 pint pints
mass: 1 kg kilogram kilograms 千克 公斤, 1/1000 g gram grams 克,
    1/1000000 mg milligram milligrams 毫克, 1000 tonne tonnes 吨,
    45359237/50000 ton tons,
    45359237/100000000 lb lbs pound pounds, 45359237/1600000000 oz ounce ounces
time: 1 s sec secs second seconds 秒, 60 min mins minute minutes 分钟,
    3600 h hr hrs hour hours 小时, 86400 day days 天, 604800 week weeks 周,
    1/1000 ms millisecond milliseconds, 1/1000000 microsecond microseconds,
    1/1000000000 ns nanosecond nanoseconds
calendar: 1 month months 个月, 12 year years yr yrs 年, 120 decade decades,
    1200 century centuries
length/time: 1397/3125 mph, 5/18 kmh kph, 463/900 knot knots
dollars: 1 dollar dollars usd buck bucks 美元, 1/100 cent cents
euros: 1 euro euros eur
sterling: 1 gbp sterling pounds-sterling
yuan: 1 yuan rmb 元, 1/10 角
yen: 1 yen 日元
rupees: 1 rupee rupees rs inr
degree: 1 degree degrees deg degs 度
radian: 1 rad rads radian radians 弧度
celsius: 1 celsius
fahrenheit: 1 fahrenheit
percent: 1 percent pct %
/time: 1 hz hertz, 1000 khz, 1000000 MHz, 1000000000 GHz
ohm: 1 ohm ohms Omega, 1000 kohm kilohm kilohms kOmega
length*mass/time^2: 1 N newton newtons
length^2*mass/time^2: 1 J joule joules, 1000 kj kilojoule kilojoules,
    3600000 kwh, 523/125 cal calorie calories, 4184 kcal kilocalorie kilocalories
electron-volt: 1 eV, 1000 keV, 1000000 MeV, 1000000000 GeV
length^2*mass/time^3: 1 W watt watts, 1000 kw kilowatt kilowatts,
    1000000 MW megawatt megawatts
mass/length/time^2: 1 Pa pascal pascals, 1000 kPa kilopascal kilopascals, 1000000 MPa,
    100000 bar bars, 101325 atm atmosphere atmospheres
kelvin: 1 K kelvin kelvins
volt: 1 V volt volts, 1000 kV kilovolt kilovolts, 1/1000 mV millivolt millivolts
ampere: 1 amp amps ampere amperes, 1/1000 mA milliamp milliamps
coulomb: 1 coulomb coulombs
farad: 1 farad farads
tesla: 1 tesla teslas
henry: 1 henry henries
decibel: 1 dB decibel decibels
byte: 1/8 bit bits, 1 byte bytes, 1000 KB kilobyte kilobytes,
    1000000 MB megabyte megabytes, 1000000000 GB gigabyte gigabytes
mole: 1 mol mole moles
"""
