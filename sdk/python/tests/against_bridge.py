"""The SDK against a bridge that runs; the Go tests start one with --dev.

AIBRIDGE_URL, BRIDGE_MQTTS, BRIDGE_WS and BRIDGE_HTTP say where it is.
"""

import asyncio
import os
import queue
import socket
import tempfile
import time
import unittest
from typing import Any, Dict, List, Optional

from aibridge import (
    Agent,
    AgentOffline,
    BridgeError,
    Certificate,
    Client,
    InvalidParameter,
    InvalidState,
    Invocation,
    KeyPair,
    NotFound,
    RevisionConflict,
    TimedOut,
    UnknownCommand,
    credentials,
    enrol,
)

PATIENCE = 60.0


def lamp(name: str) -> Agent:
    agent = Agent(name)

    @agent.capability(idempotent=True)
    def switch(on: bool) -> Dict[str, bool]:
        return {"on": on}

    @agent.capability
    def dim(call: Invocation, steps: int) -> str:
        for i in range(steps):
            call.progress(100 * (i + 1) / steps, f"step {i + 1}")
        return "dimmed"

    @agent.capability
    async def wait(call: Invocation) -> None:
        await asyncio.sleep(PATIENCE)

    @agent.capability
    def break_() -> None:
        raise InvalidState("the bulb is broken", bulb=1)

    @agent.capability
    def relay(to: str) -> Any:
        return agent.client.invoke(to, "switch", {"on": True})

    return agent


def until(what: str, holds: Any) -> Any:
    """Poll until holds() is true or yields something."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = holds()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"never: {what}")


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.bridge = Client()
        cls.lamp = lamp("lamp-1")
        cls.lamp.start()
        cls.other = lamp("lamp-2")
        cls.other.start()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.lamp.close()
        cls.other.close()
        cls.bridge.close()

    def test_a_capability_is_called(self) -> None:
        self.assertEqual(self.bridge.invoke("lamp-1", "switch", {"on": True}), {"on": True})
        self.assertEqual(asyncio.run(self.bridge.ainvoke("lamp-1", "switch", {"on": False})), {"on": False})

    def test_the_schema_is_the_functions(self) -> None:
        with self.assertRaises(InvalidParameter) as caught:
            self.bridge.invoke("lamp-1", "switch", {"on": "yes"})
        self.assertEqual(caught.exception.details["param_name"], "params.on")

    def test_a_handler_calls_others(self) -> None:
        self.assertEqual(self.bridge.invoke("lamp-1", "relay", {"to": "lamp-2"}), {"on": True})
        with self.assertRaises(BridgeError):
            self.bridge.invoke("lamp-1", "relay", {"to": "lamp-none"})

    def test_errors_are_typed(self) -> None:
        with self.assertRaises(NotFound):
            self.bridge.call("agent.get", {"agent_id": "nobody"})
        with self.assertRaises(UnknownCommand) as unknown:
            self.bridge.call("skill.invok")
        self.assertEqual(unknown.exception.details["did_you_mean"], "skill.invoke")
        with self.assertRaises(InvalidState) as broken:
            self.bridge.invoke("lamp-1", "break_")
        self.assertEqual((broken.exception.message, broken.exception.details["bulb"]), ("the bulb is broken", 1))

    def test_progress_is_heard(self) -> None:
        events: List[Dict[str, Any]] = []
        self.bridge.invoke("lamp-1", "dim", {"steps": 3}, on_event=events.append)
        told = [e["data"]["percent"] for e in events if e["event"] == "task.progress"]
        self.assertEqual([round(p) for p in told], [33, 67, 100])

    def test_time_that_runs_out_is_told(self) -> None:
        with self.assertRaises(TimedOut):
            self.bridge.invoke("lamp-1", "wait", timeout=0.3)

    def test_a_task_is_followed(self) -> None:
        started = self.bridge.call(
            "skill.invoke", {"skill_id": "lamp-1", "capability_id": "dim", "params": {"steps": 2}, "async": True}
        )
        *_, task = self.bridge.follow(started["task_id"], PATIENCE)
        self.assertEqual((task["state"], task["result"]["data"]), ("succeeded", "dimmed"))

    def test_presence_is_heard(self) -> None:
        cards: "queue.Queue[Dict[str, Any]]" = queue.Queue()
        with self.bridge.watch_agent("lamp-3", cards.put), self.bridge.events("agent", lambda e: None):
            with lamp("lamp-3"):
                self.assertEqual(self.bridge.invoke("lamp-3", "switch", {"on": True}), {"on": True})
                until("online", lambda: cards.get(timeout=PATIENCE).get("status") == "online")
            until("offline", lambda: cards.get(timeout=PATIENCE).get("status") == "offline")
        with self.assertRaises(AgentOffline):
            self.bridge.invoke("lamp-3", "switch", {"on": True}, retry=False)


class Groups(unittest.TestCase):
    def test_members_share_values_and_work(self) -> None:
        with Client() as bridge, lamp("hall-1"), lamp("hall-2"):
            bridge.call("cap.declare", {"cap_id": "home", "cap_name": "Home", "skill_id": "hall-1"})
            hall = bridge.group("home", "hall")
            hall.add("hall-1", "light")
            hall.add("hall-2", "light", {"floor": "1"})
            seen: "queue.Queue[Any]" = queue.Queue()
            with hall.watch(lambda key, value: seen.put((key, value))):
                revision = hall.set("brightness", 80)
                self.assertEqual(seen.get(timeout=PATIENCE), ("brightness", 80))
                bridge._online(0).close()  # the connection is lost
                hall.set("brightness", 81)
                until("heard over the next connection", lambda: seen.get(timeout=PATIENCE) == ("brightness", 81))
            self.assertEqual(hall.get("brightness"), 81)
            with self.assertRaises(RevisionConflict):
                hall.set("brightness", 90, revision=revision + 7)
            hall.set("names", ["a"])
            hall.set("scene", {"name": "evening", "warm": True})
            self.assertEqual(hall.get("scene"), {"name": "evening", "warm": True})
            with self.assertRaises(NotFound):
                hall.get("nothing")
            *_, task = bridge.follow(hall.dispatch("switch", {"on": True}, deadline=PATIENCE), PATIENCE)
            self.assertEqual(task["state"], "complete")
            hall.remove("hall-2")

            said: "queue.Queue[Any]" = queue.Queue()
            channel = bridge.channel("home")
            with channel.subscribe("windows/#", said.put), channel.events(lambda e: None):
                channel.publish("windows/left", {"open": True})
                m = said.get(timeout=PATIENCE)
                self.assertEqual((m.topic, m.payload), ("windows/left", b'{"open":true}'))

    def test_approvals_are_listed(self) -> None:
        with Client() as bridge, bridge.approvals.watch(lambda e: None):
            self.assertEqual(bridge.approvals.pending(), [])
            with self.assertRaises(NotFound):
                bridge.approvals.approve({"approval_id": "none", "nonce": "none"})


class Connections(unittest.TestCase):
    def test_small_packets_leave_at_once(self) -> None:
        for url in (os.environ["AIBRIDGE_URL"], os.environ["BRIDGE_WS"]):
            with Client(url) as bridge:
                sock = bridge._online(0)._mqtt.socket()
                sock = getattr(sock, "_socket", sock)
                self.assertTrue(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    def test_websockets(self) -> None:
        with Client(os.environ["BRIDGE_WS"]) as bridge:
            self.assertIn("agents", bridge.call("agent.list"))

    def test_a_certificate_is_got_used_and_renewed(self) -> None:
        with tempfile.TemporaryDirectory() as name, Client() as admin:
            claim = {
                "authority": "operator",
                "agent_id": "heating",
                "skill_id": "heating",
                "roles": ["agent_route"],
                "scene_types": ["SMART_HOME"],
            }
            token = admin.call("cert.token.create", claim)["token"]
            certificate = enrol(name, os.environ["BRIDGE_HTTP"], token)
            self.assertEqual(enrol(name, "http://nowhere", "used").folder, certificate.folder)
            begins, ends = credentials.lifetime((certificate.folder / "cert.pem").read_text())
            due = certificate.due()
            assert due is not None
            self.assertTrue(0 < due < ends - begins)

            with Client(os.environ["BRIDGE_MQTTS"], credential=certificate, client_id="heating") as device:
                device.call("agent.list")
                before = (certificate.folder / "cert.pem").read_text()
                self.assertTrue(certificate.renew(device))
                self.assertNotEqual((certificate.folder / "cert.pem").read_text(), before)
                self.assertFalse(list(certificate.folder.glob("*.new")))
            pair = KeyPair(certificate.folder / "cert.pem", certificate.folder / "key.pem")
            for shown in (Certificate(name), pair):
                with Client(os.environ["BRIDGE_MQTTS"], credential=shown, client_id="heating", ca=certificate.ca) as device:
                    device.call("agent.list")

    def test_a_certificate_that_is_due_is_renewed_by_itself(self) -> None:
        class Due(Certificate):
            renewed = False

            def due(self) -> Optional[float]:
                return None if self.renewed else 0.0

            def renew(self, client: Client) -> bool:
                self.renewed = super().renew(client)
                return self.renewed

        with tempfile.TemporaryDirectory() as name, Client() as admin:
            claim = {
                "authority": "operator",
                "agent_id": "cooling",
                "skill_id": "cooling",
                "roles": ["agent_route"],
                "scene_types": ["SMART_HOME"],
            }
            token = admin.call("cert.token.create", claim)["token"]
            before = (enrol(name, os.environ["BRIDGE_HTTP"], token).folder / "cert.pem").read_text()
            due = Due(name)
            with Client(os.environ["BRIDGE_MQTTS"], credential=due, client_id="cooling") as device:
                first = device._online(time.monotonic() + PATIENCE)
                until("renewed", lambda: due.renewed)
                self.assertNotEqual((due.folder / "cert.pem").read_text(), before)
                until("connected anew", lambda: device._ready_link() not in (None, first))
                device.call("agent.list")

    def test_a_token_that_was_used_gets_nothing(self) -> None:
        with tempfile.TemporaryDirectory() as name, self.assertRaises(BridgeError):
            enrol(name, os.environ["BRIDGE_HTTP"], "never-issued")

    def test_a_bridge_that_is_not_trusted_is_refused(self) -> None:
        with self.assertRaises(BridgeError) as caught:
            Client(os.environ["BRIDGE_MQTTS"], client_id="suspicious").connect(PATIENCE)
        self.assertIn("not trusted", caught.exception.message)


if __name__ == "__main__":
    unittest.main()
