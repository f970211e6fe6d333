"""A seeded random -> words that nobody has seen before, and sentences that mean nothing."""

from __future__ import annotations

from random import Random


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split("|")]


KNOWN_CITIES = _split(
    "Paris|London|Berlin|Tokyo|Rome|Madrid|Cairo|Oslo|Vienna|Prague|Lisbon|Dublin|Athens|Warsaw|Beijing|Boston|Chicago|"
    "Denver|Seattle|Moscow|Sydney|Toronto|Geneva|Zurich|Munich|Hamburg|Milan|Turin|Lyon"
)
ACCENTED_CITIES = _split(
    "Zürich|São Paulo|Málaga|Kraków|Tromsø|Łódź|Reykjavík|北京|東京|Москва|Αθήνα|İzmir|Besançon|Malmö"
)
KNOWN_KEYS = _split(
    "falcon|river|garden|castle|mountain|forest|window|bridge|candle|dragon|engine|feather|glacier|harbor|island|jacket|"
    "kettle|lantern|mirror|needle|ocean|pencil|quartz|rocket|saddle|temple|umbrella|violin|wagon|yellow|zebra|anchor|"
    "basket|copper|desert"
)
SUBJECTS = _split(
    "The old man|A young woman|The teacher|My neighbor|The farmer|A small child|The captain|The baker|Our guide|"
    "The doctor|A tall stranger|The painter"
)
VERBS = _split(
    "walked to|looked at|talked about|painted|remembered|forgot|visited|waited near|wrote about|dreamed of|pointed at|"
    "drove past"
)
OBJECTS = _split(
    "the market|the station|a quiet village|the long road|the white house|the green field|an empty room|the stone wall|"
    "the narrow street|the small boat|the open door|the wooden table"
)
TAILS = _split(
    "in the morning|before noon|after the rain|last winter|every evening|on a cold day|with a smile|without a word|"
    "during the storm|late at night|for a while|once again"
)
_ONSETS = _split("b|c|d|f|g|h|j|k|l|m|n|p|r|s|t|v|w|z|br|dr|gr|kl|pl|st|tr|sh|ch|th|qu")
_VOWELS = _split("a|e|i|o|u|a|e|i|o|u|ai|ea|ou")
_CODAS = _split("|||n|r|l|s|t|m|nd|rk|x")
_ACCENTS = "äöüßéèêñçãõøåæłśžőğı"
_ALPHABETS = (
    _ACCENTS,
    "αβγδεζηθικλμνξοπρστυφχψω",
    "абвгдежзиклмнопрстуфхцчшыэюя",
    "あいうえおかきくけこさしすせそたちつてとなにのはひふまみむもやゆよらりるれろわん",
    "北京上海東西南山水天地人大小中国日月火木金土花草風雨雪海河江湖石田林森春夏秋冬",
    "😀🎉🚀🌍🍎🐟🔥⭐",
)


def word(rng: Random) -> str:
    """A pronounceable word of two or three syllables."""
    return "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(rng.choice((2, 2, 3))))


def unicode_word(rng: Random) -> str:
    alphabet = rng.choice(_ALPHABETS)
    if alphabet is _ACCENTS:
        letters = list(word(rng))
        for _ in range(rng.randint(1, 2)):
            letters[rng.randrange(len(letters))] = rng.choice(alphabet)
        return "".join(letters).capitalize()
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 4)))


def city(rng: Random) -> str:
    chance = rng.random()
    if chance < 0.3:
        return rng.choice(KNOWN_CITIES)
    if chance < 0.4:
        return rng.choice(ACCENTED_CITIES)
    if chance < 0.5:
        return unicode_word(rng)
    name = word(rng).capitalize()
    return f"{rng.choice(('Port', 'New', 'Saint'))} {name}" if chance < 0.6 else name


def key(rng: Random) -> str:
    chance = rng.random()
    if chance < 0.3:
        return rng.choice(KNOWN_KEYS)
    return f"{word(rng)} {rng.choice(KNOWN_KEYS)}" if chance < 0.4 else word(rng)


def number(rng: Random) -> str:
    return str(rng.randint(10000, 99999))


def sentence(rng: Random) -> str:
    return f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)} {rng.choice(TAILS)}."
