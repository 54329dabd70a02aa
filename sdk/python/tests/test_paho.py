"""The connection over both APIs of paho: a small fake stands in for each version.

paho 2 differs where this matters: Client wants a CallbackAPIVersion first, reasons
are objects everywhere, on_disconnect gets flags before the reason, and on_publish
gets a reason and properties.
"""

import threading
import types
import unittest
from typing import Any, Callable, List, Optional, Tuple
from unittest import mock

from aibridge import PermissionDenied, _mqtt


class Reason:
    def __init__(self, value: int) -> None:
        self.value = value


class FakeClient:
    """What Connection uses of paho.mqtt.client.Client."""

    version = 1
    connack = 0
    puback = 0

    def __init__(self, *args: Any, client_id: str, protocol: int, transport: str, reconnect_on_failure: bool) -> None:
        assert args == (("VERSION2",) if self.version == 2 else ()), args
        assert not reconnect_on_failure
        self.login: Tuple[Optional[str], ...] = ()
        self.sent: List[Tuple[str, bytes]] = []
        self.on_connect: Callable[..., None] = lambda *_: None
        self.on_disconnect = self.on_message = self.on_publish = self.on_subscribe = self.on_connect
        self._mid = 0

    def username_pw_set(self, *login: Optional[str]) -> None:
        self.login = login

    def max_inflight_messages_set(self, n: int) -> None:
        pass

    def connect(self, host: str, port: int, keepalive: int, clean_start: bool, properties: Any) -> None:
        assert clean_start and properties.RequestResponseInformation == 1

    def socket(self) -> Any:
        return None

    def loop_start(self) -> None:
        properties = types.SimpleNamespace(ResponseInformation="house/client/c/response")
        self._later(self.on_connect, {}, Reason(self.connack), properties)

    def loop_stop(self) -> None:
        pass

    def disconnect(self) -> None:
        self.drop(0)

    def drop(self, reason: int) -> None:
        args = ("flags", Reason(reason), None) if self.version == 2 else (Reason(reason), None)
        self._later(self.on_disconnect, *args)

    def publish(self, topic: str, payload: bytes, qos: int, retain: bool, properties: Any) -> Any:
        self._mid += 1
        self.sent.append((topic, payload))
        args = (Reason(self.puback), types.SimpleNamespace(ReasonString="not yours")) if self.version == 2 else ()
        self._later(self.on_publish, self._mid, *args).join()  # before publish returns
        return types.SimpleNamespace(rc=0, mid=self._mid)

    def subscribe(self, filters: List[Tuple[str, Any]]) -> Tuple[int, int]:
        self._mid += 1
        self._later(self.on_subscribe, self._mid, [Reason(options.QoS) for _, options in filters], None)
        return 0, self._mid

    def _later(self, callback: Callable[..., None], *args: Any) -> threading.Thread:
        t = threading.Thread(target=callback, args=(self, None, *args))
        t.start()
        return t


class Fake1(FakeClient):
    pass


class Fake2(FakeClient):
    version = 2


def fake(kind: type) -> Any:
    module = types.SimpleNamespace(Client=kind, MQTTv5=5, MQTT_ERR_SUCCESS=0)
    if kind is not Fake1:
        module.CallbackAPIVersion = types.SimpleNamespace(VERSION2="VERSION2")
    return mock.patch.object(_mqtt, "paho", module)


def connection(lost: Callable[[], None] = lambda: None) -> _mqtt.Connection:
    address = _mqtt.parse_address("mqtt://127.0.0.1:1")
    return _mqtt.Connection(address, "c", _mqtt.Login("apikey", "k"), None, 30, lambda m: None, lost)


class BothVersions(unittest.TestCase):
    def test_it_connects_subscribes_and_publishes(self) -> None:
        for kind in (Fake1, Fake2):
            with self.subTest(kind.__name__), fake(kind):
                c = connection()
                self.assertEqual(c.response_info, "house/client/c/response")
                self.assertEqual(c.subscribe([("a", 1), ("b", 0)]), [1, 0])
                outcome: List[Optional[Exception]] = []
                c.publish(_mqtt.Message("t", b"x", 1), outcome.append)
                self.assertEqual(outcome, [None])
                self.assertEqual(c._mqtt.login, ("apikey", "k"))
                c.close()
                self.assertTrue(c.lost.is_set())

    def test_a_refused_connection_says_why(self) -> None:
        for kind in (Fake1, Fake2):
            refusing = type("Refusing", (kind,), {"connack": 0x86})
            with self.subTest(kind.__name__), fake(refusing if kind is Fake2 else Fake1), mock.patch.object(Fake1, "connack", 0x86):
                with self.assertRaises(_mqtt.Refused) as caught:
                    connection()
                self.assertTrue(caught.exception.final)
                self.assertEqual(caught.exception.error.code, "2002")

    def test_a_lost_connection_fails_what_is_under_way(self) -> None:
        for kind in (Fake1, Fake2):
            with self.subTest(kind.__name__), fake(kind):
                told = threading.Event()
                c = connection(told.set)
                c._acks.expect(99, lambda outcome: failures.append(outcome))
                failures: List[Any] = []
                c._mqtt.drop(0x8E)
                self.assertTrue(told.wait(60))
                self.assertEqual(c.reason, _mqtt.TAKEN_OVER)
                self.assertIsInstance(failures[0], _mqtt.Lost)
                outcome: List[Optional[Exception]] = []
                c.publish(_mqtt.Message("t", b"x", 1), outcome.append)
                self.assertIsInstance(outcome[0], _mqtt.Lost)

    def test_paho_2_tells_why_a_message_is_refused(self) -> None:
        with fake(type("Refusing", (Fake2,), {"puback": 0x87})):
            outcome: List[Optional[Exception]] = []
            connection().publish(_mqtt.Message("t", b"x", 1), outcome.append)
            self.assertIsInstance(outcome[0], PermissionDenied)
            self.assertIn("not yours", str(outcome[0]))

    def test_addresses(self) -> None:
        self.assertEqual(_mqtt.parse_address("wss://h/x"), ("h", 443, True, True, "/x"))
        self.assertEqual(_mqtt.parse_address("mqtts://[::1]"), ("::1", 8883, True, False, "/mqtt"))
        for bad in ("http://x", "mqtt://", "h:1883", "mqtt://h:99999"):
            with self.subTest(bad), self.assertRaises(_mqtt.errors.InvalidParameter):
                _mqtt.parse_address(bad)


if __name__ == "__main__":
    unittest.main()
