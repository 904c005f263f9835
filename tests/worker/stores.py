"""Mixins for real backends: they count what a worker asks for, hold it up, or lose what comes back."""

import random
import threading

from onward.errors import BackendUnavailable


def counting(turns):
    """Note every turn in a list."""

    class Counting:
        def turn(self, turn):
            turns.append(turn)
            return super().turn(turn)

    return Counting


class Weather:
    """What happens to calls: ``weather.storm = "away"`` and so on, changed by the test as it goes."""

    VERBS = ("turn", "open_session", "extend", "reap", "wait")

    def __init__(self, verbs=VERBS):
        self.verbs = verbs
        self.threads = ""  # only those whose names start so
        self.error = None  # raise this instead of asking the store
        self.after = None  # raise this after asking the store
        self.failed = 0
        self.calls = 0

    def around(self, verb, call):
        if verb not in self.verbs or not threading.current_thread().name.startswith(self.threads):
            return call()
        self.calls += 1
        if self.error is not None:
            self.failed += 1
            raise self.error
        answer = call()
        if self.after is not None:
            self.failed += 1
            raise self.after
        return answer


class Dice(Weather):
    """Loses calls and answers at random, ``chance`` of them, half on the way there and half on the way back."""

    def __init__(self, chance, seed, verbs=("turn", "open_session", "extend")):
        super().__init__(verbs)
        self.chance = chance
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.lost_calls = self.lost_answers = 0

    def around(self, verb, call):
        with self._lock:
            die = self._random.random() if verb in self.verbs else 1
        if die < self.chance / 2:
            self.lost_calls += 1
            raise BackendUnavailable("the call was lost")
        answer = call()
        if die < self.chance:
            self.lost_answers += 1
            raise BackendUnavailable("the answer was lost")
        return answer


def weathered(weather):
    """A backend whose calls go through this weather."""

    class Weathered:
        def turn(self, turn):
            return weather.around("turn", lambda: super(Weathered, self).turn(turn))

        def open_session(self, session, *, adopts=None):
            return weather.around("open_session", lambda: super(Weathered, self).open_session(session, adopts=adopts))

        def extend(self, owner, *, sample=None):
            return weather.around("extend", lambda: super(Weathered, self).extend(owner, sample=sample))

        def reap(self, **options):
            return weather.around("reap", lambda: super(Weathered, self).reap(**options))

        def wait(self, queues, timeout):
            return weather.around("wait", lambda: super(Weathered, self).wait(queues, timeout))

        def get(self, job_id):
            return weather.around("get", lambda: super(Weathered, self).get(job_id))

    return Weathered
