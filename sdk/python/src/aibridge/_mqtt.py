"""One MQTT 5 connection, by paho-mqtt 1.6 or 2.

A connection is used once: when it is lost, another one is made. So nothing of
paho's own memory of messages in flight is left, and who sends decides what is
sent again.
"""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union
from urllib.parse import urlsplit

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from . import errors

CONNECT_TIMEOUT = 10.0
ACK_TIMEOUT = 10.0
MAX_UNACKNOWLEDGED = 1000  # messages, of those that may be lost or can wait

_REFUSALS = {
    0x85: (errors.InvalidParameter, "the client id is not valid"),
    0x86: (errors.CredentialInvalid, "the credential is missing or not valid"),
    0x87: (errors.PermissionDenied, "not allowed, or the client id is somebody else's"),
    0x8A: (errors.PermissionDenied, "this client is banned"),
    0x8C: (errors.CredentialInvalid, "this way to authenticate is not offered"),
}

TAKEN_OVER = 0x8E


class Message(NamedTuple):
    """A message on a topic."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    content_type: Optional[str] = None
    response_topic: Optional[str] = None
    correlation: Optional[bytes] = None
    properties: Tuple[Tuple[str, str], ...] = ()  # MQTT 5 User Properties
    expiry: Optional[float] = None  # seconds

    def property(self, name: str) -> str:
        """The first User Property of a name, "" without one."""
        return next((value for key, value in self.properties if key == name), "")


class Address(NamedTuple):
    host: str
    port: int
    tls: bool
    websocket: bool
    path: str


def parse_address(url: str) -> Address:
    """Take mqtt://, mqtts://, ws:// and wss:// addresses apart."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as e:
        raise errors.InvalidParameter.at("url", f"is no address: {e}") from None
    ports = {"mqtt": 1883, "tcp": 1883, "mqtts": 8883, "ssl": 8883, "tls": 8883, "ws": 80, "wss": 443}
    if parts.scheme not in ports or not parts.hostname:
        raise errors.InvalidParameter.at("url", f"must be like mqtt://127.0.0.1:1883, mqtts://, ws:// or wss://, is {url!r}")
    return Address(
        host=parts.hostname,
        port=port or ports[parts.scheme],
        tls=parts.scheme in ("mqtts", "ssl", "tls", "wss"),
        websocket=parts.scheme in ("ws", "wss"),
        path=parts.path or "/mqtt",
    )


class Login(NamedTuple):
    """What a connection shows: a user name and a password, or nothing."""

    username: Optional[str] = None
    password: Optional[str] = None


class Refused(Exception):
    """The bridge refuses the connection. Final means that the next try fails as well."""

    def __init__(self, error: errors.BridgeError, final: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.final = final


class Lost(Exception):
    """The connection is gone, and what became of a message is not known."""


Done = Callable[[Optional[Exception]], None]  # gets None, or why it failed


class Connection:
    """One connection. ``received`` is called on the network thread and must not block."""

    def __init__(
        self,
        address: Address,
        client_id: str,
        login: Login,
        tls: Optional[ssl.SSLContext],
        keepalive: int,
        received: Callable[[Message], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._received = received
        self._on_lost = on_lost
        self.lost = threading.Event()
        self.reason: Optional[int] = None  # of the bridge's DISCONNECT
        self.response_info = ""
        self._answered = threading.Event()
        self._refusal: Optional[Refused] = None
        self._acks = _Acks()
        self._mqtt = self._client(client_id, login, tls, address)
        try:
            self._open(address, keepalive)
        except BaseException:
            self.close()
            raise

    def _client(self, client_id: str, login: Login, tls: Optional[ssl.SSLContext], address: Address) -> Any:
        # paho 2 wants to know which kind of callbacks these are.
        version = [paho.CallbackAPIVersion.VERSION2] if hasattr(paho, "CallbackAPIVersion") else []
        client = paho.Client(
            *version,
            client_id=client_id,
            protocol=paho.MQTTv5,
            transport="websockets" if address.websocket else "tcp",
            reconnect_on_failure=False,
        )
        if login.username is not None:
            client.username_pw_set(login.username, login.password)
        if address.tls:
            client.tls_set_context(tls or ssl.create_default_context())
        if address.websocket:
            client.ws_set_options(path=address.path)
        client.max_inflight_messages_set(200)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        return client

    def _open(self, address: Address, keepalive: int) -> None:
        properties = Properties(PacketTypes.CONNECT)
        properties.RequestResponseInformation = 1
        properties.RequestProblemInformation = 1
        try:
            self._mqtt.connect(address.host, address.port, keepalive, clean_start=True, properties=properties)
        except ssl.SSLCertVerificationError as e:
            error = errors.TargetUnavailable(f"the bridge's certificate is not trusted: {e.verify_message}")
            raise Refused(error, final=True) from e
        except (OSError, ValueError) as e:
            raise Refused(errors.TargetUnavailable(f"the bridge cannot be reached: {e}"), final=False) from e
        _send_at_once(self._mqtt.socket())
        self._mqtt.loop_start()
        self._answered.wait(CONNECT_TIMEOUT)
        if self._refusal is not None:
            raise self._refusal
        if self.lost.is_set() or not self._answered.is_set():
            raise Refused(errors.TargetUnavailable("the bridge hung up, or did not answer in time"), final=False)

    def close(self, wait: bool = True) -> None:
        """End the connection, after what is to be sent if it still stands. Not on the network thread."""
        if not self.lost.is_set():
            self._mqtt.disconnect()
            self.lost.wait(2.0 if wait else 0.2)
        self._mqtt.loop_stop()
        self._end()

    def publish(self, m: Message, done: Optional[Done] = None) -> None:
        """Send a message. done is called when the bridge has it (QoS 1), or it is on
        its way (QoS 0), or the connection is lost; perhaps on the network thread."""
        properties = Properties(PacketTypes.PUBLISH)
        if m.content_type:
            properties.ContentType = m.content_type
        if m.response_topic:
            properties.ResponseTopic = m.response_topic
        if m.correlation:
            properties.CorrelationData = m.correlation
        if m.expiry is not None:
            properties.MessageExpiryInterval = max(1, int(m.expiry + 0.999))
        if m.properties:
            properties.UserProperty = list(m.properties)
        if self.lost.is_set():
            return _fail(done)
        try:
            info = self._mqtt.publish(m.topic, m.payload, m.qos, m.retain, properties)
        except (ValueError, OSError) as e:
            if done:
                done(errors.InvalidParameter.at("topic", str(e)))
            return
        # paho keeps a message that it could not send for its next connection; there is none.
        if info.rc != paho.MQTT_ERR_SUCCESS:
            return _fail(done)
        self._acks.expect(info.mid, done)
        if self.lost.is_set():
            self._acks.fail()

    @property
    def crowded(self) -> bool:
        """Whether so much is on its way that what may be lost should be."""
        return self._acks.count() >= MAX_UNACKNOWLEDGED

    def subscribe(self, filters: Sequence[Tuple[str, int]]) -> List[int]:
        """Subscribe to filters with their QoS and return the reason codes."""
        answer: List[Any] = []
        came = threading.Event()

        def done(outcome: Any) -> None:
            answer.append(outcome)
            came.set()

        options = [(f, SubscribeOptions(qos=qos)) for f, qos in filters]
        rc, mid = self._mqtt.subscribe(options)
        if rc != paho.MQTT_ERR_SUCCESS:
            raise Lost("the connection is lost")
        self._acks.expect(("subscribe", mid), done)
        if self.lost.is_set():
            self._acks.fail()
        if not came.wait(ACK_TIMEOUT) or isinstance(answer[0], Exception):
            raise Lost("the bridge did not acknowledge a subscription")
        return [_number(code) for code in answer[0]]

    def unsubscribe(self, filter: str) -> None:
        self._mqtt.unsubscribe(filter)

    # What paho calls. Arguments differ by its version: reasons are numbers or objects.

    def _on_connect(self, _client: Any, _userdata: Any, _flags: Any, reason: Any, properties: Any = None) -> None:
        code = _number(reason)
        if code == 0:
            self.response_info = getattr(properties, "ResponseInformation", "") or ""
        else:
            kind, text = _REFUSALS.get(code, (errors.TargetUnavailable, f"reason {code:#x}"))
            text = getattr(properties, "ReasonString", "") or text
            self._refusal = Refused(kind(f"the bridge refuses the connection: {text}"), final=code in _REFUSALS)
        self._answered.set()

    def _on_disconnect(self, _client: Any, _userdata: Any, *args: Any) -> None:
        # paho 1: reason, properties; paho 2: flags, reason, properties.
        for arg in args:
            if hasattr(arg, "value") and isinstance(arg.value, int) and arg.value >= 0x80:
                self.reason = arg.value
        self._end()

    def _end(self) -> None:
        self.lost.set()
        self._answered.set()
        self._acks.fail()
        self._on_lost()

    def _on_message(self, _client: Any, _userdata: Any, message: Any) -> None:
        p = message.properties
        self._received(
            Message(
                topic=message.topic,
                payload=bytes(message.payload),
                qos=message.qos,
                retain=bool(message.retain),
                content_type=getattr(p, "ContentType", None),
                response_topic=getattr(p, "ResponseTopic", None),
                correlation=getattr(p, "CorrelationData", None),
                properties=tuple(getattr(p, "UserProperty", ())),
                expiry=getattr(p, "MessageExpiryInterval", None),
            )
        )

    def _on_publish(self, _client: Any, _userdata: Any, mid: int, *args: Any) -> None:
        # paho 1 does not tell the reason.
        code = _number(args[0]) if args else 0
        self._acks.settle(mid, None if code < 0x80 else _publish_error(code, args[-1]))

    def _on_subscribe(self, _client: Any, _userdata: Any, mid: int, reasons: Any, *_: Any) -> None:
        self._acks.settle(("subscribe", mid), reasons)


def _send_at_once(sock: Any) -> None:
    """Have small packets leave without waiting for the acknowledgement of the last,
    which takes 40 ms where the other side delays it. paho leaves that to the system."""
    sock = getattr(sock, "_socket", sock)  # below paho's WebSocket
    if hasattr(sock, "setsockopt"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _publish_error(code: int, properties: Any) -> errors.BridgeError:
    kind = {0x87: errors.PermissionDenied, 0x90: errors.InvalidParameter, 0x95: errors.PayloadTooLarge, 0x97: errors.RateLimited}
    text = getattr(properties, "ReasonString", "") or f"reason {code:#x}"
    return kind.get(code, errors.Internal)(f"the bridge refuses the message: {text}")


def _number(reason: Any) -> int:
    """A reason code of paho as a number."""
    return int(getattr(reason, "value", reason))


def _fail(done: Optional[Done]) -> None:
    if done:
        done(Lost("the connection is lost"))


class _Acks:
    """Acknowledgements to come. One may arrive before publish returns its number.

    No lock is held while paho is called, nor while done is: paho calls back under
    locks of its own.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._expected: Dict[Any, Optional[Done]] = {}
        self._early: Dict[Any, Any] = {}

    def expect(self, key: Union[int, Tuple[str, int]], done: Optional[Callable[[Any], None]]) -> None:
        with self._mutex:
            if key not in self._early:
                self._expected[key] = done
                return
            outcome = self._early.pop(key)
        if done:
            done(outcome)

    def settle(self, key: Union[int, Tuple[str, int]], outcome: Any) -> None:
        with self._mutex:
            if key not in self._expected:
                self._early[key] = outcome
                return
            done = self._expected.pop(key)
        if done:
            done(outcome)

    def count(self) -> int:
        return len(self._expected)

    def fail(self) -> None:
        with self._mutex:
            waiting, self._expected = self._expected, {}
        for done in waiting.values():
            _fail(done)
