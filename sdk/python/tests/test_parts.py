"""Envelopes, errors, memory, credentials, workers."""

import base64
import json
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Callable, List, Tuple

from aibridge import (
    Agent,
    BridgeError,
    Busy,
    Internal,
    InvalidParameter,
    Invocation,
    NotFound,
    Retry,
    Token,
    credentials,
    envelope,
    errors,
)
from aibridge.calling import Call
from aibridge.memory import Memory
from aibridge.workers import Clock, Workers


class Line:
    """A connection over which a request is answered, or lost."""

    def __init__(self, put: Callable[[Tuple[str, Any]], None], answered: bool) -> None:
        self.put = put
        self.answered = answered
        self.sent = 0

    def publish(self, message: Any, done: Any) -> None:
        self.sent += 1
        self.put(("response", {"result": 7}) if self.answered else ("lost", self))


class LostOnce:
    """A client whose first connection is lost, which is told a second time after the
    next one stands."""

    root = "aibridge"
    response_topic = "aibridge/client/c/response"

    def __init__(self) -> None:
        self._closing = threading.Event()
        self.lines: List[Line] = []

    def _online(self, deadline: float) -> Line:
        if self.lines:
            self.call.inbox.put(("lost", self.lines[0]))
        self.lines.append(Line(self.call.inbox.put, answered=bool(self.lines)))
        return self.lines[-1]


class Calls(unittest.TestCase):
    def test_the_end_of_an_earlier_connection_repeats_nothing(self) -> None:
        client: Any = LostOnce()
        client.call = Call(client, "probe.run", {}, {"trace_id": "t"}, "id", time.monotonic() + 60, None, True)
        self.assertEqual(client.call.run(), 7)
        self.assertEqual([line.sent for line in client.lines], [1, 1])


class Envelopes(unittest.TestCase):
    def test_garbage_is_no_envelope(self) -> None:
        for payload in (
            b"",
            b"\xff",
            b"null",
            b"[]",
            b"7",
            b'{"a":NaN}',
            b'{"a":1,"a":2}',
            b'{"a":"\\ud800"}',
            b"[" * 100_000,
            b'{"a":' * 20_000,
            b"{",
        ):
            with self.subTest(payload[:20]):
                self.assertIsNone(envelope.decode(payload))
        self.assertEqual(envelope.decode(b' {"id":"x"} '), {"id": "x"})

    def test_values_that_are_not_json_are_refused(self) -> None:
        with self.assertRaises(ValueError):
            envelope.encode({"a": float("inf")})


class Errors(unittest.TestCase):
    def test_an_error_comes_back_as_its_class(self) -> None:
        e = BridgeError.from_wire({"code": "4008", "message": "busy", "details": {"retry_after_ms": 250, "message": "x"}})
        self.assertIsInstance(e, Busy)
        self.assertEqual((e.code, e.message, e.retry, e.retry_after), ("4008", "busy", Retry.AFTER, 0.25))
        self.assertEqual(e.to_wire(), {"code": "4008", "message": "busy", "details": {"retry_after_ms": 250, "message": "x"}})

    def test_old_and_unknown_forms_are_understood(self) -> None:
        self.assertIsInstance(BridgeError.from_wire("it broke"), Internal)
        self.assertIsInstance(BridgeError.from_wire({"code": 3001}), NotFound)
        self.assertEqual(BridgeError.from_wire({"code": "3999", "details": None}).code, "3999")

    def test_every_code_has_one_class(self) -> None:
        classes = BridgeError.__subclasses__()
        self.assertEqual(len(errors.BY_CODE), len(classes))
        self.assertEqual(InvalidParameter.at("params.x", "is missing").details, {"param_name": "params.x", "reason": "is missing"})


class Memories(unittest.TestCase):
    def test_calls_last_over_restarts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            m = Memory(folder, "a/b")
            m.begin("1", "t1")
            m.begin("2", None)
            m.begin("3", None)
            m.answer("1", b"one")
            m.forget("3")
            m.answer("never begun", b"x")
            m.close()
            m = Memory(folder, "a/b")
            self.assertEqual(m.load(), [("1", "t1", b"one"), ("2", None, None)])
            m.close()

    def test_it_is_bounded(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            m = Memory(folder, "a")
            m._db.execute("PRAGMA synchronous=OFF")
            for i in range(2000):
                m.begin(str(i), None)
            self.assertLessEqual(len(m.load()), 1024 + 256)
            self.assertEqual(m.load()[-1][0], "1999")
            m.close()


def token(expires: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    return f"e30.{claims}.c2ln"


class Credentials(unittest.TestCase):
    def test_a_token_is_due_before_it_expires(self) -> None:
        now = time.time()
        tokens = [token(now + 1000), token(now + 1000), token(now + 5000)]
        t = Token(lambda: tokens[0])
        self.assertEqual(t.login(), ("jwt", tokens[0]))
        due = t.due()
        assert due is not None
        self.assertTrue(600 < due <= 800, due)
        self.assertFalse(t.renew(None))  # type: ignore[arg-type]
        tokens[0] = tokens[2]
        self.assertTrue(t.renew(None))  # type: ignore[arg-type]

    def test_a_token_that_says_nothing_is_never_due(self) -> None:
        for text in ("opaque", "a.b.c", token(-1), "e30.e30.e30"):
            t = Token(lambda: text)
            t.login()
            self.assertIsNone(t.due())

    def test_a_crash_while_a_certificate_is_replaced_is_settled(self) -> None:
        for left in (["key.pem.new"], ["cert.pem.new"], ["key.pem.new", "cert.pem.new"]):
            with self.subTest(left), tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                new_key_in_place = "key.pem.new" not in left
                (folder / "key.pem").write_text("new" if new_key_in_place else "old")
                (folder / "cert.pem").write_text("old")
                for n in left:
                    (folder / n).write_text("new")
                credentials.settle(folder)
                pair = {(folder / "key.pem").read_text(), (folder / "cert.pem").read_text()}
                self.assertEqual(pair, {"old"} if left == ["key.pem.new"] else {"new"})

    def test_the_environment_names_one(self) -> None:
        self.assertIsInstance(credentials.from_environment({"AIBRIDGE_API_KEY": "k", "AIBRIDGE_TOKEN": "t"}), credentials.Key)
        self.assertEqual(credentials.from_environment({"AIBRIDGE_TOKEN": "t"}).login(), ("jwt", "t"))
        self.assertIsInstance(credentials.from_environment({"AIBRIDGE_CERT": "c", "AIBRIDGE_KEY": "k"}), credentials.KeyPair)
        self.assertEqual(credentials.from_environment({}).login(), (None, None))


class Threads(unittest.TestCase):
    def test_workers_run_so_many_at_a_time(self) -> None:
        workers, gate, running, most = Workers(3), threading.Event(), threading.Semaphore(0), []
        at_work: List[int] = []

        def work() -> None:
            at_work.append(1)
            most.append(len(at_work))
            running.release()
            gate.wait(60)
            at_work.pop()

        for _ in range(6):
            workers.run(work)
        for _ in range(3):
            self.assertTrue(running.acquire(timeout=60))
        gate.set()
        for _ in range(3):
            self.assertTrue(running.acquire(timeout=60))
        self.assertLessEqual(max(most), 3)
        workers.close()

    def test_the_clock_keeps_the_order(self) -> None:
        clock, told, done = Clock(), [], threading.Event()
        now = time.monotonic()
        clock.at(now + 0.02, done.set)
        clock.at(now + 0.01, lambda: told.append("second"))
        clock.at(now - 1, lambda: told.append("first"))
        self.assertTrue(done.wait(60))
        self.assertEqual(told, ["first", "second"])
        clock.close()

    def test_the_clock_forgets_what_is_cancelled(self) -> None:
        clock = Clock()
        later = time.monotonic() + 3600
        for _ in range(1000):
            clock.at(later, lambda: None).cancel()
        self.assertLess(len(clock._due), 200)
        clock.close()


class Declarations(unittest.TestCase):
    def test_a_capability_is_described_by_its_function(self) -> None:
        agent = Agent("lamp", memory=None)

        @agent.capability(effect="read", risk="low")
        def read(call: Invocation, deep: bool = False) -> float:
            """The light now."""
            return 1.0

        described = agent._own.describe()["capabilities"][0]
        self.assertEqual(described["capability_id"], "read")
        self.assertEqual(described["description"], "The light now.")
        self.assertEqual(list(described["params_schema"]["properties"]), ["deep"])
        self.assertEqual(described["result_schema"], {"type": "number"})
        self.assertEqual(read(None, True), 1.0)  # it is still the function

    def test_a_capability_says_which_calls_are_the_same_deed(self) -> None:
        agent = Agent("gate", memory=None)
        ask = {"capability_id": "state", "params": {"door": "{door}"}, "done_when": {"locked": False}}

        @agent.capability(effect_key="door:{door}", effect_window_ms=5000, reconcile=ask)
        def unlock(door: str) -> None:
            """Unlock a door."""

        described = agent._own.describe()["capabilities"][0]
        self.assertEqual((described["effect_key"], described["effect_window_ms"], described["reconcile"]), ("door:{door}", 5000, ask))

    def test_bad_declarations_fail_at_once(self) -> None:
        agent = Agent("lamp")
        with self.assertRaises(TypeError):
            agent.start()  # nothing to serve
        with self.assertRaises(TypeError):
            agent.capability(effect="perhaps")(lambda: None)
        agent.capability(id="x")(lambda: None)
        with self.assertRaises(TypeError):
            agent.capability(id="x")(lambda: None)


if __name__ == "__main__":
    unittest.main()
