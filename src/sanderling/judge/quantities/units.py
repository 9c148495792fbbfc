"""Units by their names: what each measures, and how much of the base unit it is.

The common ones of SI, of Britain and of the United States, exact where their definition is. Names are matched as they stand
first and in small letters after that, so that mW and MW, or b and B, are told apart where a text tells them apart. A name that
means several units of one kind (ton, cup) is a kind of its own: it equals itself, and converts to nothing.
"""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: ``value * factor + offset`` is in the base unit of its kind."""

    kind: str
    factor: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


_INCH, _POUND, _GALLON = Fraction("0.0254"), Fraction("0.45359237"), Fraction("3.785411784")
_FOOT, _MILE, _SQUARE_FOOT = 12 * _INCH, 63360 * _INCH, (12 * _INCH) ** 2

_TABLE: tuple[tuple[str, str, Fraction | int | str], ...] = (
    # kind, names, how many of the base unit
    ("length", "m metre meter metres meters 米 公尺", 1),
    ("length", "km kilometre kilometer kilometres kilometers kms 公里 千米", 1000),
    ("length", "dm decimetre decimeter decimetres decimeters", "0.1"),
    ("length", "cm centimetre centimeter centimetres centimeters 厘米", "0.01"),
    ("length", "mm millimetre millimeter millimetres millimeters 毫米", "0.001"),
    ("length", "µm um micrometre micrometer micrometres micrometers micron microns", "1e-6"),
    ("length", "nm nanometre nanometer nanometres nanometers", "1e-9"),
    ("length", 'in inch inches " ″', _INCH),
    ("length", "ft foot feet ' ′ 英尺", _FOOT),
    ("length", "yd yard yards", 3 * _FOOT),
    ("length", "mi mile miles 英里", _MILE),
    ("length", "nmi nautical_mile nautical_miles", 1852),
    ("length", "ly light-year light-years light_year light_years lightyear lightyears", 9460730472580800),
    ("length", "au astronomical_unit astronomical_units", 149597870700),
    ("length", "pc parsec parsecs", "3.0856775814913673e16"),
    ("mass", "kg kilogram kilograms kilogramme kilogrammes kilo kilos kgs 公斤 千克", 1),
    ("mass", "g gram grams gramme grammes 克", "0.001"),
    ("mass", "mg milligram milligrams", "1e-6"),
    ("mass", "µg ug microgram micrograms", "1e-9"),
    ("mass", "t tonne tonnes metric_ton metric_tons 吨", 1000),
    ("mass", "lb lbs pound_mass pounds_mass", _POUND),
    ("mass", "oz ounce ounces", _POUND / 16),
    ("mass", "st stone stones", 14 * _POUND),
    ("ton", "ton tons", 1),
    ("time", "s sec secs second seconds", 1),
    ("time", "ms millisecond milliseconds", "0.001"),
    ("time", "min mins minute minutes 分钟", 60),
    ("time", "h hr hrs hour hours 小时", 3600),
    ("time", "d day days 天", 86400),
    ("time", "week weeks", 604800),
    ("years", "y yr yrs year years", 12),
    ("years", "month months", 1),
    ("years", "decade decades", 120),
    ("years", "century centuries", 1200),
    ("years before Christ", "BC BCE", 1),
    ("years after Christ", "AD CE", 1),
    ("area", "m² m2 m^2 sqm square_metre square_meter square_metres square_meters sq_m 平方米", 1),
    ("area", "km² km2 km^2 square_kilometre square_kilometer square_kilometres square_kilometers sq_km", 1_000_000),
    ("area", "平方公里 平方千米", 1_000_000),
    ("area", "cm² cm2 cm^2 square_centimetre square_centimeter square_centimetres square_centimeters sq_cm", "0.0001"),
    ("area", "ha hectare hectares 公顷", 10_000),
    ("area", "acre acres", 43560 * _SQUARE_FOOT),
    ("area", "ft² ft2 ft^2 sqft square_foot square_feet sq_ft", _SQUARE_FOOT),
    ("area", "mi² mi2 mi^2 square_mile square_miles sq_mi", _MILE**2),
    ("volume", "l litre liter litres liters", 1),
    ("volume", "ml millilitre milliliter millilitres milliliters cc cm³ cm3 cm^3 cubic_centimetres cubic_centimeters", "0.001"),
    ("volume", "cl centilitre centiliter centilitres centiliters", "0.01"),
    ("volume", "m³ m3 m^3 cubic_metre cubic_meter cubic_metres cubic_meters", 1000),
    ("volume", "km³ km3 km^3 cubic_kilometre cubic_kilometer cubic_kilometres cubic_kilometers", 10**12),
    ("volume", "ft³ ft3 ft^3 cubic_foot cubic_feet cu_ft", 1000 * _FOOT**3),
    ("gallon", "gal gallon gallons", 1),
    ("volume", "us_gallon us_gallons u.s._gallon u.s._gallons", _GALLON),
    ("barrel", "bbl barrel barrels", 1),
    ("speed", "m/s mps metres_per_second meters_per_second", 1),
    ("speed", "km/h kmh kph kilometres_per_hour kilometers_per_hour", Fraction(1000, 3600)),
    ("speed", "km/s kilometres_per_second kilometers_per_second", 1000),
    ("speed", "mph mi/h miles_per_hour", _MILE / 3600),
    ("speed", "kn kt kts knot knots", Fraction(1852, 3600)),
    ("speed", "ft/s fps feet_per_second", _FOOT),
    ("pressure", "Pa pascal pascals", 1),
    ("pressure", "hPa hectopascal hectopascals mbar millibar millibars", 100),
    ("pressure", "kPa kilopascal kilopascals", 1000),
    ("pressure", "MPa megapascal megapascals", 1_000_000),
    ("pressure", "bar bars", 100_000),
    ("pressure", "atm atmosphere atmospheres", 101_325),
    ("pressure", "psi", _POUND * Fraction("9.80665") / _INCH**2),
    ("energy", "J joule joules", 1),
    ("energy", "kJ kilojoule kilojoules", 1000),
    ("energy", "MJ megajoule megajoules", 1_000_000),
    ("energy", "GJ gigajoule gigajoules", 10**9),
    ("energy", "Wh watt-hour watt-hours watt_hours", 3600),
    ("energy", "kWh kilowatt-hour kilowatt-hours kilowatt_hours", 3_600_000),
    ("energy", "MWh megawatt-hour megawatt-hours megawatt_hours", 3_600_000_000),
    ("energy", "GWh gigawatt-hour gigawatt-hours gigawatt_hours", 3_600_000_000_000),
    ("energy", "TWh terawatt-hour terawatt-hours terawatt_hours", 3_600_000_000_000_000),
    ("energy", "cal", "4.184"),
    ("energy", "kcal kilocalorie kilocalories", 4184),
    ("power", "W watt watts", 1),
    ("power", "mW milliwatt milliwatts", "0.001"),
    ("power", "kW kilowatt kilowatts", 1000),
    ("power", "MW megawatt megawatts", 1_000_000),
    ("power", "GW gigawatt gigawatts", 10**9),
    ("power", "TW terawatt terawatts", 10**12),
    ("horsepower", "hp horsepower", 1),
    ("frequency", "Hz hertz", 1),
    ("frequency", "kHz kilohertz", 1000),
    ("frequency", "MHz megahertz", 1_000_000),
    ("frequency", "GHz gigahertz", 10**9),
    ("bytes", "B byte bytes", 1),
    ("bytes", "kB KB kilobyte kilobytes", 1000),
    ("bytes", "MB megabyte megabytes", 10**6),
    ("bytes", "GB gigabyte gigabytes", 10**9),
    ("bytes", "TB terabyte terabytes", 10**12),
    ("bytes", "PB petabyte petabytes", 10**15),
    ("bytes", "KiB kibibyte kibibytes", 2**10),
    ("bytes", "MiB mebibyte mebibytes", 2**20),
    ("bytes", "GiB gibibyte gibibytes", 2**30),
    ("bytes", "TiB tebibyte tebibytes", 2**40),
    ("bits", "bit bits", 1),
    ("angle", "deg degree degrees °", 1),
    ("share", "% percent per_cent pct", "0.01"),
    ("share", "‰ permille per_mille", "0.001"),
    ("percentage points", "pp percentage_point percentage_points", 1),
    ("dollars", "$ us$ usd dollar dollars us_dollar us_dollars u.s._dollars 美元", 1),
    ("dollars", "cent cents", "0.01"),
    ("euros", "€ eur euro euros 欧元", 1),
    ("pounds", "£ gbp pound pounds pounds_sterling", 1),
    ("yen", "¥ jpy yen 日元", 1),
    ("yuan", "cny rmb yuan 元 人民币", 1),
    ("rupees", "₹ inr rupee rupees", 1),
    ("francs", "chf", 1),
)  # fmt: skip
_TEMPERATURES = {
    "°c": Unit("temperature", offset=Fraction("273.15")),
    "°f": Unit("temperature", Fraction(5, 9), Fraction("459.67") * Fraction(5, 9)),
    "k": Unit("temperature"),
}
_TEMPERATURE_NAMES = {
    "°c": "°C ℃ 摄氏度 celsius degrees_celsius degree_celsius degrees_c deg_c degrees_centigrade",
    "°f": "°F ℉ fahrenheit degrees_fahrenheit degree_fahrenheit degrees_f deg_f",
    "k": "K kelvin kelvins",
}
POUNDS = "pounds"
"""Money or mass: :func:`alike` lets it be either."""


def _units() -> dict[str, Unit]:
    found = {name.replace("_", " "): Unit(kind, Fraction(factor)) for kind, names, factor in _TABLE for name in names.split()}
    for key, names in _TEMPERATURE_NAMES.items():
        found |= {name.replace("_", " "): _TEMPERATURES[key] for name in names.split()}
    return found


UNITS = _units()
_FOLDED: dict[str, Unit | None] = {}
for _name, _unit in UNITS.items():
    _FOLDED[_name.lower()] = _unit if _FOLDED.get(_name.lower(), _unit) == _unit else None
LONGEST_NAME = max(name.count(" ") for name in UNITS) + 1
"""Words in the longest name."""
LONGEST_SIGNS = 4
"""Signs in the longest Chinese name."""
_MASS_POUND = Unit("mass", _POUND)


def unit_of(name: str) -> Unit | None:
    """The unit of a name; None where there is none, or where only capitals would tell."""
    return UNITS.get(name) or _FOLDED.get(name.lower())


def alike(one: Unit, other: Unit) -> tuple[Unit, Unit]:
    """Two units, with *pounds* read as mass where the other one is a mass."""
    if one.kind == POUNDS and other.kind == "mass":
        return _MASS_POUND, other
    if other.kind == POUNDS and one.kind == "mass":
        return one, _MASS_POUND
    return one, other
