"""What is kept of an exception: storable, bounded text, whatever the exception is like."""

import asyncio
import decimal
import gc
import sys
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.base import failure
from onward.base.failure import MESSAGE_LIMIT, TRACEBACK_LIMIT, describe, storable
from onward.errors import JobTimeout


def caught(function, *args):
    """The exception that a call raises, as a worker meets it."""
    try:
        function(*args)
    except BaseException as error:  # noqa: BLE001  that is the point
        return error
    raise AssertionError("it did not raise")


def fails(message="no route to host", kind=ValueError):
    raise kind(message)


def recurses(depth):
    if depth == 0:
        fails()
    recurses(depth - 1)


def is_storable(text):
    return "\x00" not in text and text.encode("utf-8").decode("utf-8") == text


# Text


@pytest.mark.promise("F60")
@given(st.text(st.characters()))
def test_any_text_becomes_storable(text):
    assert is_storable(storable(text))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=100))
def test_storable_text_is_left_alone(text):
    assert storable(text) == text


@pytest.mark.promise("F60")
@pytest.mark.parametrize(("text", "kept"), [("a\x00b", "a\\x00b"), ("a\ud800b", "a\\ud800b"), ("\udcff", "\\udcff")])
def test_what_cannot_be_stored_is_spelled_out(text, kept):
    assert storable(text) == kept


@pytest.mark.promise("F60")
@given(st.text(st.sampled_from("a\x00\ud800é")), st.integers(5, 50))
def test_text_keeps_to_its_limit_even_where_it_is_spelled_out(text, limit):
    assert len(storable(text * 20, limit)) <= limit


def test_text_that_was_cut_shows_it():
    assert storable("abcdefgh", 5) == "abcd…"


# Messages


@pytest.mark.promise("F60")
@given(st.text(st.characters()))
def test_any_message_can_be_stored(message):
    failure = describe(caught(fails, message))

    assert is_storable(failure.message)
    assert is_storable(failure.traceback)


@pytest.mark.promise("F60")
@pytest.mark.parametrize("message", ["x" * 10_000_000, "\x00" * 10_000_000, "\ud800" * 1_000_000, "é" * 1_000_000])
def test_a_huge_message_is_bounded(message):
    failure = describe(caught(fails, message))

    assert len(failure.message) <= MESSAGE_LIMIT
    assert len(failure.traceback) <= TRACEBACK_LIMIT


class Silent(Exception):
    def __str__(self):
        raise self.args[0]


class Liar(Exception):
    def __str__(self):
        return 5  # noqa: PLE0307  that is the point


class Odd(str):
    __slots__ = ()

    def __len__(self):
        raise RuntimeError("no length")


@pytest.mark.promise("F60")
@pytest.mark.parametrize(
    "raised", [ValueError(), RecursionError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit()]
)
def test_an_exception_whose_text_raises_has_a_message(raised):
    failure = describe(caught(fails, raised, Silent))

    assert failure.kind == f"{__name__}.Silent"
    assert failure.message == f"<{__name__}.Silent whose text cannot be read>"


@pytest.mark.promise("F60")
def test_an_exception_whose_text_is_no_text_has_a_message():
    assert describe(caught(fails, "", Liar)).message == f"<{__name__}.Liar whose text cannot be read>"


@pytest.mark.promise("F60")
def test_a_message_of_an_odd_kind_of_text_can_be_had():
    class Teller(Exception):
        def __str__(self):
            return Odd("odd")

    failure = describe(caught(fails, "", Teller))

    assert type(failure.message) is str


@pytest.mark.promise("F60")
def test_an_exception_with_an_impossible_name_has_a_kind():
    class Impossible(Exception):
        __qualname__ = "Bad\x00\ud800" + "x" * 1000

    failure = describe(caught(fails, "", Impossible))

    assert is_storable(failure.kind)
    assert len(failure.kind) <= 200


def test_the_kind_of_a_class_that_is_not_pythons_own_has_its_module():
    class Weird(Exception): ...

    assert describe(Weird()).kind == f"{__name__}.{Weird.__qualname__}"
    assert describe(decimal.Inexact()).kind == "decimal.Inexact"
    assert describe(asyncio.CancelledError()).kind == "asyncio.exceptions.CancelledError"


def test_the_kind_is_the_class_and_the_message_the_text():
    failure = describe(caught(fails, "no route to host", ConnectionError))

    assert (failure.kind, failure.message) == ("ConnectionError", "no route to host")


# Tracebacks


def test_a_traceback_names_file_line_function_and_source():
    failure = describe(caught(fails))

    assert f'File "{__file__}", line ' in failure.traceback
    assert ", in fails\n    raise kind(message)\n" in failure.traceback
    assert failure.traceback.endswith("ValueError: no route to host\n")


def test_an_exception_that_was_never_raised_has_a_short_traceback():
    assert describe(ValueError("x")).traceback == "ValueError: x\n"


@pytest.mark.promise("F60")
def test_of_many_frames_the_innermost_are_kept():
    traceback = describe(caught(recurses, 500)).traceback

    assert "outer frames" in traceback
    assert traceback.count("in recurses") < 20
    assert ", in fails\n" in traceback
    assert len(traceback) <= TRACEBACK_LIMIT


@pytest.mark.promise("F60")
def test_an_endless_recursion_can_be_described():
    def endless():
        endless()

    failure = describe(caught(endless))

    assert failure.kind == "RecursionError"
    assert len(failure.traceback) <= TRACEBACK_LIMIT


@pytest.mark.promise("F60")
def test_locals_never_appear():
    def handler():
        password = "".join(reversed("3retnuh"))
        fails(f"login as {len(password)} failed")

    failure = describe(caught(handler))

    assert "hunter3" not in failure.message + failure.traceback


@pytest.mark.promise("F60")
def test_code_without_a_source_or_a_line_can_be_described():
    def handler():
        fails()

    handler.__code__ = handler.__code__.replace(co_filename="\x00nowhere\ud800", co_linetable=b"")

    failure = describe(caught(handler))

    assert failure.kind == "ValueError"
    assert is_storable(failure.traceback)


@pytest.mark.promise("F60")
def test_a_loader_that_fails_does_not_hide_the_failure():
    class Loader:
        def get_source(self, name):
            raise RuntimeError("no source today")

    globals_ = {"__loader__": Loader(), "__name__": "generated"}
    exec(compile("def handler():\n    raise ValueError('x')\n", "<generated by a template>", "exec"), globals_)

    assert describe(caught(globals_["handler"])).message == "x"


@pytest.mark.promise("F60")
def test_a_source_line_of_a_megabyte_is_bounded():
    source = "def handler(x):\n    return " + " + ".join(["x"] * 300) + " + ''" + " " * 1_000_000
    globals_ = {"__loader__": None}
    exec(compile(source, "<long>", "exec"), globals_)

    assert len(describe(caught(globals_["handler"], 1)).traceback) <= TRACEBACK_LIMIT


# Chains


def test_a_cause_is_told_before_its_effect():
    def handler():
        try:
            fails("the cause")
        except ValueError as error:
            raise RuntimeError("the effect") from error

    traceback = describe(caught(handler)).traceback

    assert "ValueError: the cause\n\nwhich directly caused:\n\n" in traceback
    assert traceback.endswith("RuntimeError: the effect\n")


def test_a_context_is_told_before_what_it_led_to():
    def handler():
        try:
            fails("first")
        except ValueError:
            raise RuntimeError("second")  # noqa: B904  that is the point

    traceback = describe(caught(handler)).traceback

    assert "ValueError: first\n\nduring its handling this was raised:\n\n" in traceback


def test_a_suppressed_context_is_not_told():
    def handler():
        try:
            fails("first")
        except ValueError:
            raise RuntimeError("second") from None

    assert "first" not in describe(caught(handler)).traceback


@pytest.mark.promise("F60")
def test_a_chain_that_runs_in_a_circle_ends():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    assert describe(first).traceback.count("ValueError") == 2


@pytest.mark.promise("F60")
def test_a_long_chain_is_bounded_and_ends_with_the_error_itself():
    error = caught(fails, "root " * 1000)
    for number in range(1000):
        error.__context__, error = None, caught(fails, f"link {number} " + "x" * 10_000)
        error.__cause__ = ValueError("y" * 10_000)

    failure = describe(error)

    assert len(failure.traceback) <= TRACEBACK_LIMIT
    assert "ValueError: link 999 xxx" in failure.traceback


@pytest.mark.promise("F60")
def test_four_long_links_each_leave_their_last_frame_and_their_message():
    error = None
    for number in range(4):
        link = caught(recurses, 300)
        link.args = (f"link {number} " + "x" * 5000,)
        link.__cause__, error = error, link

    traceback = describe(error).traceback

    assert len(traceback) <= TRACEBACK_LIMIT
    assert [number for number in range(4) if f"ValueError: link {number} xxx" in traceback] == [0, 1, 2, 3]
    assert traceback.count(", in fails\n") == 4


# Groups


def test_a_group_tells_what_it_holds():
    def handler():
        raise ExceptionGroup(
            "two went wrong", [caught(fails, "the first"), caught(fails, "the second", ConnectionError)]
        )

    failure = describe(caught(handler))

    assert failure.kind == "ExceptionGroup"
    assert failure.message == "two went wrong (2 sub-exceptions)"
    assert "ValueError: the first" in failure.traceback
    assert "ConnectionError: the second" in failure.traceback
    assert ", in fails\n" in failure.traceback


def test_a_group_in_a_group_tells_the_innermost():
    inner = ExceptionGroup("inner", [ExceptionGroup("innermost", [caught(fails, "deep down")])])

    assert "ValueError: deep down" in describe(ExceptionGroup("outer", [inner])).traceback


@pytest.mark.promise("F60")
def test_a_large_group_is_bounded_and_ends_with_its_own_line():
    error = ExceptionGroup("many", [caught(fails, "x" * 5000) for _ in range(1000)])

    traceback = describe(error).traceback

    assert len(traceback) <= TRACEBACK_LIMIT
    assert traceback.endswith("ExceptionGroup: many (1000 sub-exceptions)\n")


@pytest.mark.promise("F60")
def test_a_group_nested_without_end_can_be_described():
    error = ValueError("deep down")
    for _ in range(10 * sys.getrecursionlimit()):
        error = ExceptionGroup("again", [error])

    assert describe(error).kind == "ExceptionGroup"


@pytest.mark.promise("F84")
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, TimeoutError])
def test_what_is_not_quite_an_exception_is_described_too(kind):
    assert describe(caught(fails, "x", kind)).kind == kind.__name__


# Failures that recur


class Refused(Exception):
    pass


@pytest.mark.promise("F60")
@given(
    st.lists(
        st.tuples(
            st.sampled_from([ValueError, Refused, JobTimeout]),
            st.one_of(
                st.sampled_from(["", "no route", "postgresql://ann:hunter2@db", "x" * 5_000, "a\x00b\ud800"]), st.text()
            ),
        )
    )
)
def test_what_was_met_before_changes_no_record(raised):
    def record(kind, message, *, anew):
        if anew:
            failure._known.clear()
        return describe(caught(fails, message, kind))

    told = [record(kind, message, anew=True) for kind, message in raised]

    assert [record(kind, message, anew=False) for kind, message in raised] == told


def test_an_exception_that_recurs_has_the_same_record():
    assert describe(caught(fails)) is describe(caught(fails))


def test_two_ways_to_one_line_are_two_tracebacks():
    def by_another_way():
        fails()

    first, second = describe(caught(fails)), describe(caught(by_another_way))

    assert "by_another_way" not in first.traceback
    assert "by_another_way" in second.traceback


def test_two_lines_of_one_function_are_two_places():
    def handler(first):
        if first:
            raise ValueError("x")
        raise ValueError("x")

    first, second = (describe(caught(handler, each)).traceback for each in (True, False))

    assert first != second


def test_the_secrets_of_a_job_are_masked_where_the_same_exception_came_without_them():
    plain = describe(caught(fails, "hunter2"))
    masked = describe(caught(fails, "hunter2"), lambda text: text.replace("hunter2", "***"))

    assert (plain.message, masked.message) == ("hunter2", "***")
    assert "hunter2" not in masked.traceback


def test_a_cause_is_told_where_the_same_exception_came_without_one():
    def handler(cause):
        raise ValueError("x") from cause

    assert "OSError" not in describe(caught(handler, None)).traceback
    assert "OSError: no route" in describe(caught(handler, OSError("no route"))).traceback


@pytest.mark.promise("F60")
def test_classes_and_code_that_come_and_go_are_told_apart():
    for number in range(300):
        scope = {}
        exec(f"class Error{number}(Exception): pass\ndef f{number}(): raise Error{number}('x')", scope)
        told = describe(caught(scope[f"f{number}"]))

        assert told.kind.endswith(f"Error{number}")
        assert f"in f{number}\n" in told.traceback


def test_a_class_that_gets_the_id_of_another_that_is_gone_is_told_apart():
    def handler(name):
        raise type(name, (Exception,), {})("x")

    ids = set()
    for number in range(100):
        error = caught(handler, f"Error{number}")
        ids.add(id(type(error)))
        assert describe(error).kind.endswith(f"Error{number}")
        del error
        gc.collect(1)  # what is new: all that the tests of this process have made takes a second each time

    assert len(ids) < 100


def test_nothing_that_a_class_refers_to_is_kept_alive():
    class Data:
        pass

    def handler(data):
        class Own(Exception):
            seen = data

        raise Own("x")

    data = Data()
    is_alive = weakref.ref(data)
    describe(caught(handler, data))
    del data
    gc.collect()

    assert is_alive() is None


def test_no_credential_is_remembered():
    failure._known.clear()
    describe(caught(fails, "postgresql://ann:hunter2@db"))

    assert failure._known
    assert "hunter2" not in repr(failure._known)


def test_places_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(failure, "_KNOWN", 3)
    failure._known.clear()
    for depth in range(9):
        describe(caught(recurses, depth))

    assert len(failure._known) <= 3
