r"""Rewrites the many spellings of an answer as one: its normal form.

:func:`normal_form` runs once on the gold and once on the answer, before parsing:

1. Unicode becomes LaTeX or ASCII (``SIGNS``), and full-width signs ASCII. Raised and
   lowered digits become powers and subscripts. Invisible signs are removed.
2. Delimiters of mathematics are removed: dollars, ``\(...\)``, bold and code of
   markdown, quotation marks.
3. Commands of layout, colours and frames are removed (``COMMANDS``). Synonyms become
   one: ``\dfrac`` is ``\frac``, ``\mathrm{cm}`` is ``\text{cm}``, ``\leqslant`` is
   ``\le``.
4. Groups of digits are joined: ``1{,}500``, ``1,\!500``, ``1\,500``, ``1 500``. A plain
   comma may separate items, so splitting.py decides.
5. ``.``, ``,``, ``;`` and ``:`` at the end and braces around everything are removed.

Nothing here depends on the meaning of an answer. All patterns take time that is linear
in the text.
"""

import functools
import re
import unicodedata

from passk_jax.verifiers import number_sets
from passk_jax.verifiers.number_words import negate, read_number
from passk_jax.verifiers.systems import SYSTEM, spell_system
from passk_jax.verifiers.vocabulary import GREEK_CAPITALS, GREEK_LETTERS

# Sign -> its replacement; a command ends with a blank.
SIGNS = {
    **dict.fromkeys('−–—‐‑‒―﹣－', '-'),
    **dict.fromkeys('×✕✖⨯', r'\times '),
    **dict.fromkeys('·⋅∙•・', r'\cdot '),
    **dict.fromkeys('∕⁄', '/'),
    **dict.fromkeys('≤≦⩽', r'\le '),
    **dict.fromkeys('≥≧⩾', r'\ge '),
    **dict.fromkeys('≈≃≅', r'\approx '),
    **dict.fromkeys('∅⌀', r'\emptyset '),
    **dict.fromkeys('°º˚', r'^\circ '),
    **dict.fromkeys('。．', '.'),
    **dict.fromkeys('、，', ','),
    **dict.fromkeys('“”„‟«»「」『』', '"'),
    **dict.fromkeys('‘’′', "'"),
    **dict.fromkeys('…⋯', r'\ldots '),
    **dict.fromkeys('∣｜', '|'),
    **{'÷': r'\div ', '±': r'\pm ', '∓': r'\mp ', '≠': r'\ne ', '∞': r'\infty '},
    **{'√': r'\sqrt ', '∛': r'\cbrt ', '∪': r'\cup ', '∩': r'\cap ', '∈': r'\in '},
    **{'∗': '*', '∶': ':', '℃': r'^\circ \text{C}', '℉': r'^\circ \text{F}'},
    **{'∖': r'\setminus ', '∠': r'\angle ', '△': r'\triangle ', '→': r'\to '},
    **{'⌊': r'\lfloor ', '⌋': r'\rfloor ', '⌈': r'\lceil ', '⌉': r'\rceil '},
    **{'⟨': '(', '⟩': ')', '∑': r'\sum ', '∏': r'\prod '},
    **{'∫': r'\int ', '∂': r'\partial ', '≡': r'\equiv ', '∼': r'\sim '},
    **{
        letter: rf'\mathbb{{{plain}}}'
        for letter, plain in zip('ℝℕℤℚℂ', 'RNZQC', strict=True)
    },
    **{'€': r'\text{euros}', '£': r'\text{pounds sterling}', '¥': r'\text{yuan}'},
    **{'￥': r'\text{yuan}', '¢': r'\text{cents}', 'π': r'\pi ', 'ϕ': r'\phi '},
    **{'µ': r'\mu ', 'Ω': r'\Omega ', '％': '%', '₹': r'\text{rupees}'},
    **{'㎡': r'\text{ m}^2', '㎥': r'\text{ m}^3', '㎠': r'\text{ cm}^2'},
    **dict.fromkeys('✓✔✅☑■□∎', ' '),
    **{chr(ord('α') + i): rf'\{name} ' for i, name in enumerate(GREEK_LETTERS)},
    **{
        chr(ord('Α') + i): rf'\{name.capitalize()} '
        for i, name in enumerate(GREEK_LETTERS)
        if name in GREEK_CAPITALS
    },
}
_RAISED = dict(zip('⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ',
                   '0123456789+-()abcdefghijklmnoprstuvwxyz', strict=True))  # fmt: skip
_LOWERED = dict(zip('₀₁₂₃₄₅₆₇₈₉₊₋ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ', '0123456789+-aehijklmnoprstuvx',
                    strict=True))  # fmt: skip
_RAISED_END = re.compile('(?<=[0-9])(?:ᵗʰ|ˢᵗ|ⁿᵈ|ʳᵈ)')
_RUNS = (
    (re.compile(f'[{"".join(_RAISED)}]+'), '^', _RAISED),
    (re.compile(f'[{"".join(_LOWERED)}]+'), '_', _LOWERED),
)
_INVISIBLE = re.compile(
    '[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f'
    '\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]'
)
_ENCLOSED = re.compile(
    r'\\\((.*)\\\)|\\\[(.*)\\\]|"(.*)"|``(.*)\'\'|\'([^\']*)\'', re.DOTALL
)
_BOLD = re.compile(r'(?<![\w)\]}*])(\*\*|__)((?:(?!\1)[^*]){1,300})\1(?![\w({*])')

# Pattern -> replacement, in order.
COMMANDS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # Groups of digits, before the blanks of LaTeX go.
        (r"(?<=[0-9])(?:\{,\}|,\s*\\!\s*|\\!\s*,|\{\\,\}|')(?=[0-9]{3}(?![0-9]))", ''),
        (r'(?<=[0-9])\{,\}(?=[0-9])', '.'),
        (r'(?<=[0-9])\{\.\}(?=[0-9])', '.'),
        (r'(?<![\^_])(?:\\(?:text|math(?:rm|bin|rel|punct))\s*)?'
         r'\{\s*([-+:=<>,]|\\%)\s*\}', r'\1'),
        # 3 x 10^5
        (r'(?<=[0-9])\s*[xX]\s*(?=10\s*(?:\^|\*\*))', r'\\times '),
        # Layout.
        (r'\\(?:left|right|[bB]ig{1,2}[lrm]?)(?![a-zA-Z])\s*(?:\.(?!\d))?', ''),
        (r'\\(?:display|text|script|scriptscript)style(?![a-zA-Z])', ' '),
        (r'\\(?:no)?limits(?![a-zA-Z])', ''),
        (r'\\(?:nonumber|notag|newline|par|noindent|relax|null|(?:math)?strut|space|[hv]fill?'
         r'|(?:small|med|big)skip|centering|checkmark|qed)(?![a-zA-Z])', ' '),
        (r'\\(?:hskip|kern|mkern|mskip) *-?[0-9.]+ *(?:em|ex|pt|mu|cm|mm)', ' '),
        # The height of a row, a line between rows.
        (r'(?<!\\)\\\\ *\*? *\[ *-?[0-9.]+ *(?:pt|e[mx]|mm|cm|in|mu|bp|sp|pc) *\]',
         r'\\\\ '),
        (r'\\hline(?![a-zA-Z])|\\noalign *\{[^{}]*\}', ' '),
        (r'\\(?:blacksquare|square|Box) *[.]?\s*$', ''),
        (r'</?(?:b|i|u|em|strong|span|p|answer|mark)>', ''),
        # siunitx
        (r'\\num *\{([^{}]*)\}', r'\1'),
        (r'\\ang *\{([^{}]*)\}', r'\1^\\circ '),
        (r'\\(?:SI|qty) *\{([^{}]*)\} *\{([^{}\\]*)\}', r'\1\\text{ \2}'),
        (r'\\(?:si|unit) *\{([^{}\\]*)\}', r'\\text{ \1}'),
        (r'\\(?:bf|it|sf|tt|cal|large|Large|LARGE|huge|Huge|small|tiny|normalsize'
         r'|footnotesize|scriptsize)(?![a-zA-Z])', ' '),
        # Colours and frames go with their options; their content stays.
        (r'\\fcolorbox\s*(?:\[[^\[\]{}]*\]\s*)?\{[^{}]*\}\s*(?:\[[^\[\]{}]*\]\s*)?'
         r'\{[^{}]*\}', ''),
        (r'\\(?:(?:text|math)?color|colorbox|parbox|raisebox|scalebox|rotatebox|enclose)'
         r'\s*(?:\[[^\[\]{}]*\]\s*)*\{[^{}]*\}', ''),
        (r'\\resizebox\s*\{[^{}]*\}\s*\{[^{}]*\}', ''),
        (r'\\(?:style|class|cssId|href|htmlClass|htmlId|require)\s*\{[^{}]*\}', ''),
        (r'\\(?:framebox|makebox|bbox|tcbox|tcboxmath|shadowbox|ovalbox|Ovalbox'
         r'|doublebox|Aboxed)\s*(?:\[[^\[\]{}]*\]\s*)*(?=\{)', ''),
        (r'(?:\\(?:text|mbox|fbox|boxed)\s*)?'
         r'\{\s*\$((?:[^${}]|\{(?:[^${}]|\{[^${}]*\})*\})*)\$\s*\}', r'{\1}'),
        # \text{if $x>0$}, but no amounts of dollars.
        (r'\\text\{([^{}$\\]*)(?<![A-Za-z])\$([^{}$]*[^{}$\s\\])\$'
         r'(?:\s*\}|(?=[^{}$0-9][^{}$]*\}))',
         lambda match: rf'\text{{{match[1]}}}{match[2]}'
         + (r'\text{' if match[0][-1] == '$' else '')),
        (r'\\[hv]space\*?\s*\{[^{}]*\}', ' '),
        (r'\^ *\{\\phantom *\{[^{}]*\} *\}', ''),
        (r'\\[hv]?phantom\s*(?:\{[^{}]*\}|.)', ' '),
        # A label that counts what dots leave out says how many.
        (r'\\(?:under|over)brace *(\{(?![^{}]*(?:\.\.|dots))[^{}]*\}) *[_^] *'
         r'(?:\{(?:[^{}]|\{[^{}]*\})*\}|\w)', r'\1'),
        (r'\\(?:label|tag)\*?\{[^{}]*\}', ' '),
        # A system of equations is a list; cases with conditions are not.
        (SYSTEM, spell_system),
        (r'(?<![A-Za-z])([A-Za-z])(\s*&?\s*=\s*&?[^&=\\]*(?:\\[a-z][^&=\\]*)*)\\\\\s*'
         r'(?=(?!\1)[A-Za-z]\s*&?\s*=)', r'\1\2, '),
        (r'\\q?quad\s*(?=\(?[A-Za-z]\s*(?:=|\\(?:in|geq?|neq?)(?![a-z])))', ', '),
        (r'\\(?:begin|end)\{(?:aligned|align\*?|gathered|gather\*?|equation\*?|split'
         r'|math|displaymath|center)\}', ' '),
        # Blanks.
        (r'(?<!\\)\\!', ''),
        (r'(?<!\\)\\[,;:> \n]|~', ' '),
        (r'\\(?:quad|qquad|thinspace|enspace|medspace)(?![a-zA-Z])', ' '),
        (r'\s+', ' '),
        # Sets of numbers.
        (r'\\([RNZQC])(?![a-zA-Z])', r'\\mathbb{\1}'),
        (r'\\in ?(?:\\math(?:bf|rm) ?)?\{? ?([RNZQC]) ?\}?(?![A-Za-z])',
         r'\\in \\mathbb{\1}'),
        (r'^ ?\\mathbf ?\{?([RZQ])\}? ?$', r'\\mathbb{\1}'),
        # Fonts of text become \text; fonts of mathematics go.
        (r'\\(?:mbox|hbox|textbf|textrm|textit|textnormal|textsf|texttt|emph'
         r'|operatorname\*?|mathrm|textup|textmd|textsc)\s*(?=\{)', r'\\text'),
        (r'\{\s*\\rm\s+([^{}]*)\}', r'\\text{\1}'),
        (r'\\(?:mathrm|mathbf|mathit|boldsymbol|bm|rm) *([A-Za-z0-9])'
         r'(?![A-Za-z])', r' \1'),
        (r'\\mathbb +([A-Z])', r'\\mathbb{\1}'),
        (r'\\text\s+\{', r'\\text{'),
        (r'\\text\{\s*([0-9.]+|\\?[%$])\s*\}', r'\1'),
        (r'\\text\{(?:[^{}]|\^\s*\{[^{}]*\})*\}',
         lambda match: re.sub(r'\^\s*\{\s*(-?[1-9])\s*\}(?![0-9])', r'^\1', match[0])),
        (r'\\text\{([^{}]*)\^([23])\}', r'\\text{\1}^\2'),
        (r'\\frac\s*\{\s*(\\text\{[^{}]*\})\s*\}\s*'
         r'\{\s*(\\text\{[^{}]*\}(?:\^\{?[1-9]\}?)?)\s*\}', r'\1/\2'),
        # An upright e before an exponent; 2\mathrm{e}-5 may be a difference.
        (r'(?<=[0-9.])(?: ?\\text\{[eE]\}|[eE]) ?\{([+-]?[0-9]{1,4})\}(?![0-9.^!])',
         r'E\1'),
        (r'(?<=[0-9.])\\text\{[eE]([+-]?[0-9]{1,4})\}', r'E\1'),
        (r'(?<=[0-9.])\\text\{(E)\}(?=[+-]?[0-9])', r'\1'),
        (r'(?<=[0-9.])\\text\{(e)\}(?=-?[0-9])', r'\1'),
        (r'(?<=\.[0-9])([0-9]*)\\text\{e\}(?=\+[0-9])', r'\1e'),
        (r'(?<=[0-9 ])\{\s*(\\text\{[^{}]*\})\s*\}', r'\1'),
        (r'\\math(?:it|sf|tt|bf|normal)\{\s*([A-Za-z]{2,})\s*\}', r'\\text{\1}'),
        (r'\\(?:mathbf|mathit|mathsf|mathtt|mathnormal|boldsymbol|bm|pmb|underline|bold'
         r'|ensuremath|boxed|fbox|mathop|mathord|mathcal|vec|hat|tilde|smash|[lrc]lap'
         r'|mathrlap|centerline)\s*(?=\{)', ''),
        (r'\\rm *\{([^{}]*)\}', r'\\text{\1}'),
        (r'\\rm(?![a-zA-Z])', ' '),
        (r'\\text\{([^{}]*)\\text\{([^{}]*)\}([^{}]*)\}', r'\\text{\1\2\3}'),
        (r'\\text\{\s*(\\[a-zA-Z]+)\s*\}', r'\1 '),
        (r'\\text\{\s*(sin|cos|tan|cot|sec|csc|ln|log|lg|exp|arcsin|arccos|arctan)\s*\}',
         r'\\\1 '),
        (r'\\text\{\s*\}|\\#', ' '),
        # Braces around nothing, a name of a function, digits before a base.
        (r'(?<![A-Za-z}])\{\s*\}|(?<=[0-9])\{\s*\}', ''),
        (r'(?<![A-Za-z}])\{\s*(\\(?:sin|cos|tan|cot|sec|csc|ln|log|lg'
         r'|overline *\{[0-9]+\})|[0-9]+(?=\}_))\s*\}(?=[\^_]|$)', r'\1'),
        (r'\\text\{\s*,?\s*(?:for|where|with|when|if|provided that)\s*\}'
         r'(?=\s*[A-Za-z]\s*(?:\\ne|\\not *=))', ', '),
        (r'(?<=[^\s,;(]) *\((?= *[A-Za-z]\s*(?:\\ne|\\not *=))([^()]*)\) *\.?$',
         r', \1'),
        (r'(?<!\\)\\&', r'\\text{ and }'),
        (r'(\\(?:sin|cos|tan|cot|sec|csc) *\(? *[0-9]+) *\\text\{ *degrees? *\}',
         r'\1^\\circ '),
        # 8 (eight)
        (r'(?<![0-9.,])([0-9]{1,12}) *(?:\\text\{ *)?'
         r'\( *([A-Za-z]+(?:[ -]+[A-Za-z]+)*) *\) *\}?$',
         lambda match: match[1 if read_number(match[2]) == int(match[1]) else 0]),
        # A unit in brackets, or after a dot.
        (r'(?<=[0-9])\s*\\cdot\s*(?=\\text\{)', ' '),
        (r'(?<=[0-9} ])[(\[]\s*(\\text\{[^{}]*\}|[a-z]{2}|(?:[a-z]+\.? )?[a-z]{4,}'
         r'|[\u4e00-\u9fff]{1,3})\s*[)\]]\.?$', r' \1'),
        # Ordinal numbers; an exponent without \\text is a product unless it is the end.
        (r'(?:(?<=[0-9])(?:\^ *)?\\text(?:superscript)? *\{ *(?:st|nd|rd|th) *\}'
         r'|(?<=[0-9])\^ *\{ *\\text *\{ *(?:st|nd|rd|th) *\} *\}'
         r'|(?:(?<=1)st|(?<=2)nd|(?<=3)rd|(?<=[0-9])th))(?= *(?:$|[,;.)\]}]))', ''),
        (r'^( *[0-9]*(?=1\D*s|2\D*n|3\D*r|[0-9]\D*t)[0-9]) *\^ *'
         r'\{ *(?:st|nd|rd|th) *\} *$', r'\1'),
        # Digits of a base in \text or before a blank, bases in words, binomials.
        (r'_ *(\\text\{[^{}]*\})', r'_{\1}'),
        (r'^ *(-?\(?(?=[^_]*[0-9])(?:[0-9A-Z]|\\text\{[0-9A-Z ]+\})+\)?) *'
         r'(?=_(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\}|[0-9]+) *\.?$)',
         lambda match: re.sub(r'\\text\{([^{}]*)\}', r'\1', match[1])),
        (r'(?<=[0-9A-Z})])\s*(?:\\text\{\s*)?\(?(?:in )?base[ -]*\}? *'
         r'([0-9]+|[a-z]+)\)?\s*\)?\}?$', r'_{\1}'),
        (r'_\{\s*(?:\\text\{\s*base *\}? *|\( *)([0-9]+|[a-z]+) *[)}]?\s*\}$',
         r'_{\1}'),
        (r'(?:\\text\{C\}|(?<![A-Za-z0-9}])C)\^(?:\{ *)?([0-9]+) *\}?'
         r'_(?:\{ *([0-9]+) *\}|([0-9]))', r'\\binom{\2\3}{\1}'),
        (r'(?:\\text\{C\}|(?<![A-Za-z0-9}])C)_(?:\{ *([0-9]+) *\}|([0-9]))'
         r'\^(?:\{ *([0-9]+) *\}|([0-9]))', r'\\binom{\1\2}{\3\4}'),
        (r'(?<![A-Za-z0-9)}\]])[_^](?:\{ *([0-9]+) *\}|([0-9])) *(?:\\text\{C\}|C)'
         r'_(?:\{ *([0-9]+) *\}|([0-9]))', r'\\binom{\1\2}{\3\4}'),
        (r'(?<![A-Za-z0-9}\\])C\( *([0-9]+) *, *([0-9]+) *\)', r'\\binom{\1}{\2}'),
        (r'\{([^{}]*)\\choose(?![a-z])([^{}]*)\}', r'\\binom{\1}{\2}'),
        # Synonyms.
        (r'\\(?:[dtcs]|nice)frac(?![a-zA-Z])', r'\\frac'),
        (r'\{([^{}]*)\\over(?![a-z])([^{}]*)\}', r'\\frac{\1}{\2}'),
        (r'^([^{}]*)\\over(?![a-z])([^{}]*)$', r'\\frac{\1}{\2}'),
        (r'\\[dt]binom(?![a-zA-Z])', r'\\binom'),
        (r'\\(?:varnothing|empty)(?![a-zA-Z])', r'\\emptyset'),
        (r'\\(?:leqslant|leqq|leq)(?![a-zA-Z])|<=|=<', r'\\le '),
        (r'\+/-', r'\\pm '),
        (r'\\(?:geqslant|geqq|geq)(?![a-zA-Z])|>=', r'\\ge '),
        (r'\\(?:lt)(?![a-zA-Z])', '<'),
        (r'\\(?:gt)(?![a-zA-Z])', '>'),
        # But 5!=120 is a factorial, and x^2!=4 is none.
        (r'\\neq(?![a-zA-Z])|\\not\s*=|(?:(?<![0-9])|(?<=[\^_][0-9]))!=', r'\\ne '),
        (r'\\(?:simeq|approxeq|thickapprox|doteq)(?![a-zA-Z])', r'\\approx '),
        (r'\\(?:l|r)?(?:vert|mid)(?![a-zA-Z])|\\[lr]vert(?![a-zA-Z])', '|'),
        (r'\\lbrace(?![a-zA-Z])', r'\\{'),
        (r'\\rbrace(?![a-zA-Z])', r'\\}'),
        (r'\\lbrack(?![a-zA-Z])', '['),
        (r'\\rbrack(?![a-zA-Z])', ']'),
        (r'\\lparen(?![a-zA-Z])', '('),
        (r'\\rparen(?![a-zA-Z])', ')'),
        (r'\\langle(?![a-zA-Z])', '('),
        (r'\\rangle(?![a-zA-Z])', ')'),
        (r'^<([^<>=]*,[^<>=]*)>$', r'(\1)'),
        (r'(?<=[)\]]) *(?:U|\\text\{ *U *\}) *(?=[(\[])', r'\\cup '),
        (r'(?:(?<![A-Za-z])US|\\text\{US\}) *\\?\$|\\(?:text|math)dollar(?![a-z])',
         r'\\$'),
        (r'\\colon(?![a-zA-Z])', ':'),
        (r'\\(?:ast|star)(?![a-zA-Z])', '*'),
        (r'\\(?:dots|cdots|dotsc|dotsb)(?![a-zA-Z])', r'\\ldots '),
        (r'\\bigcup(?![a-zA-Z])', r'\\cup '),
        (r'\\infin(?![a-zA-Z])|\\text\{ *(?:(?:positive|plus) )?infinity *\}'
         r'|^(?:positive|plus) infinity$', r'\\infty '),
        (r'\\text\{ *(?:negative|minus) infinity *\}|^(?:negative|minus) infinity$',
         r'-\\infty '),
        # negative 3, minus three
        (r'^ *(?:\\text\{ *(?i:negative|minus) *\} *|(?i:negative|minus) +)'
         r'(?=[0-9.]|\\(?:frac|sqrt|pi)(?![a-z]))', '-'),
        (r'^ *(?:\\text\{ *)?(?i:negative|minus) +'
         r'([0-9.]+|[A-Za-z]+(?:[ -]+[A-Za-z]+)*) *\}?$', negate),
        (r'\\uppi(?![a-zA-Z])', r'\\pi '),
        (r'\\surd(?![a-zA-Z])', r'\\sqrt '),
        (r'\\cr(?![a-zA-Z])', r'\\\\'),
        (r'\\varepsilon(?![a-zA-Z])', r'\\epsilon '),
        (r'\\varphi(?![a-zA-Z])', r'\\phi '),
        (r'\\vartheta(?![a-zA-Z])', r'\\theta '),
        (r'\\backslash(?![a-zA-Z])', r'\\setminus '),
        (r'\\percent(?![a-zA-Z])|(?<!\\)%', r'\\%'),
        (r'(?:\{\s*\})?\^\s*(?:\{\s*(?:\\circ|\\degree|o|\\text\{\s*o\s*\})\s*\}|\\degree)'
         r'|\\(?:degree|textdegree|deg)(?![a-zA-Z])|(?<=[0-9])\^\s*\\text\{o\}'
            r'|(?<=[0-9])\^o(?![a-z])', r'^\\circ '),
        (r'\^\s*\\prime(?![a-zA-Z])|\^\{\s*\\prime\s*\}', "'"),
        # A root takes the number or letter that follows; unicode has no braces.
        (r'\\(sqrt|cbrt) +([0-9]+(?:\.[0-9]+)?|[A-Za-z])', r'\\\1{\2}'),
        (r'\\cbrt\s*(?=[({])', r'\\sqrt[3]'),
        # 3 1/2 is mixed, 1 500 one number.
        (r'(?<![0-9.,/^_{]) ?\b([0-9]+) ([0-9]+)/([0-9]+)(?![0-9.])',
         r'\1\\frac{\2}{\3}'),
        (r'(?<![0-9.,])([1-9][0-9]{0,2})((?: [0-9]{3})+)(?![0-9])',
         lambda match: match[1] + match[2].replace(' ', '')),
        (r'(?<![0-9.,])([1-9][0-9]{0,2})((?:\.[0-9]{3}){2,})(?![0-9.])',
         lambda match: match[1] + match[2].replace('.', '')),
        (r'(?<=[0-9])\\ldots', r' \\ldots'),
        *number_sets.COMMANDS,
        (r' +', ' '),
    )
)  # fmt: skip
# Braces and delimiters around everything.
_MOST_LAYERS = 8
_BEGIN = re.compile(r'^(?:[\s,;:=]|&|\\\\)+')


@functools.lru_cache(maxsize=2**14)
def normal_form(text: str) -> str:
    r"""Rewrites an answer in the one spelling that the readers know.

    >>> normal_form('$１２．$'), normal_form(r'\left( x²,\ \dfrac{1}{2}\right).')
    ('12', '( x^{2}, \\frac{1}{2})')
    """
    text = _without_delimiters(_plain_signs(text))
    for pattern, replacement in COMMANDS:
        text = pattern.sub(replacement, text)
    for _ in range(_MOST_LAYERS):
        before, text = text, _without_delimiters(_without_ends(text))
        text = _without_braces(text)
        if text == before:
            break
    return text


def _without_ends(text: str) -> str:
    """Removes punctuation at both ends of the text."""
    text = _BEGIN.sub('', text)
    while text and text[-1] in ' ,;:.\\' and not text.endswith('..'):
        # A lone backslash is what a blank of LaTeX leaves at the end.
        text = text[:-1]
    return text


def _plain_signs(text: str) -> str:
    if text.isascii():
        return _INVISIBLE.sub('', text)
    text = _RAISED_END.sub(lambda match: unicodedata.normalize('NFKC', match[0]), text)
    for run, command, digits in _RUNS:
        text = run.sub(
            lambda match, command=command, digits=digits: (
                f'{command}{{{"".join(digits[sign] for sign in match[0])}}}'
            ),
            text,
        )
    return _INVISIBLE.sub('', ''.join(map(_plain_sign, text)))


@functools.lru_cache(maxsize=2**12)
def _plain_sign(sign: str) -> str:
    if sign.isascii():
        return sign
    if sign in SIGNS:
        return SIGNS[sign]
    plain = unicodedata.normalize('NFKC', sign)
    above, slash, below = plain.partition('⁄')
    if slash and above.isdigit() and below.isdigit():
        return rf'\frac{{{above}}}{{{below}}}'
    return ''.join(SIGNS.get(part, part) for part in plain)


def _without_delimiters(text: str) -> str:
    """Removes delimiters of mathematics; twice, for bold around dollars."""
    for _ in range(2):
        text = _BOLD.sub(r'\2', text.strip())
        while len(text) > 1 and text[0] == text[-1] == '$' and text[-2:] != r'\$':
            text = text[1:-1].strip()
        for sign in '`*':
            # Markdown's code and italics.
            if text.startswith(sign) and text.endswith(sign):
                text = text.strip(sign).strip()
        if match := _ENCLOSED.fullmatch(text):
            inside = next(part for part in match.groups() if part is not None)
            if not set(inside) & {'"', '`'} and r'\(' not in inside:
                text = inside.strip()
    return text


def _without_braces(text: str) -> str:
    """Removes a pair of braces around the whole text."""
    if text.startswith('{') and closing_brace(text) == len(text) - 1:
        return text[1:-1].strip()
    return text


def closing_brace(text: str) -> int:
    """Finds where the brace at the start of a text is closed; -1: nowhere."""
    depth = 0
    for match in re.finditer(r'\\.|[{}]', text):
        depth += {'{': 1, '}': -1}.get(match[0], 0)
        if depth == 0 and match[0] in '{}':
            return match.start()
    return -1
