"""The bench draws what it measured: nothing in a picture that is not in the figures."""

import re
from xml.etree import ElementTree

from bench.picture import draw, file_name

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [{"onward": 400.0, "raw <loop>": 900.0, "huey": 100.0}, {"onward": 500.0, "raw <loop>": 800.0, "huey": None}]


def bars(drawn):
    return [
        (each.get("class"), float(each.get("width")))
        for each in ElementTree.fromstring(drawn).iter(f"{SVG}rect")
        if each.get("class") != "paper"
    ]


def texts(drawn, kind):
    return [each.text for each in ElementTree.fromstring(drawn).iter(f"{SVG}text") if each.get("class") == kind]


def test_bars_are_as_long_as_the_medians_and_the_longest_comes_first():
    drawn = draw("Rates", {"processing": ROWS}, ("huey",))

    assert texts(drawn, "name") == ["raw <loop>", "onward", "huey"]
    assert texts(drawn, "number") == ["850", "450", "100"]
    (_, longest), (_, ours), (_, peer) = bars(drawn)
    assert (round(ours / longest, 2), round(peer / longest, 2)) == (round(450 / 850, 2), round(100 / 850, 2))


def test_colours_tell_ours_from_a_peers_and_from_the_raw_loop():
    drawn = draw("Rates", {"processing": ROWS}, ("huey",))

    assert [kind for kind, _ in bars(drawn)] == ["raw", "ours", "peer"]


def test_what_is_not_a_comparison_of_rates_is_not_drawn():
    drawn = draw("Rates", {"pick-up": [{"onward": [1.0], "huey": [2.0]}], "crowd": [{"onward": 5.0}]}, ())

    assert bars(drawn) == []


def test_a_picture_says_in_words_what_it_shows():
    drawn = draw("Rates", {"processing": ROWS}, ("huey",))

    assert ElementTree.fromstring(drawn).find(f"{SVG}desc").text == "processing: onward 450, raw <loop> 850, huey 100"


def test_the_name_of_a_file_can_stand_in_a_link():
    assert re.fullmatch(r"[a-z0-9.-]+", file_name("plain turns on sqlite"))
