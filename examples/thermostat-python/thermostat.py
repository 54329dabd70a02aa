#!/usr/bin/env python3
"""A thermostat as a skill of AI Bridge, with nothing but paho (MQTT 5)."""

import json
import os
import signal
import sys
import time
import traceback
import uuid
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from urllib.parse import urlparse

import paho.mqtt.client as mqtt
from paho.mqtt.properties import Properties
from paho.mqtt.packettypes import PacketTypes

NAME = "thermostat-python"
LOWEST, HIGHEST = 5, 30
BRIDGE = "aibridge/bridge/request"
ANSWERS = f"aibridge/client/{NAME}/response"  # to what we ask the bridge
REQUESTS = f"aibridge/agent/{NAME}/request"  # what the bridge asks us
RESPONSES = f"aibridge/agent/{NAME}/response"  # what we answer

SKILL = {
    "skill_id": NAME,
    "name": "Thermostat",
    "description": "Reads and sets the temperature of a room",
    "version": "1.0.0",
    "capabilities": [
        {"capability_id": "read", "description": "the temperature now and the one aimed at", "effect": "read"},
        {
            "capability_id": "set_target",
            "description": "aim at a temperature",
            "idempotent": True,
            "params_schema": {  # the bridge checks params against it before it asks
                "type": "object",
                "properties": {"celsius": {"type": "number", "minimum": LOWEST, "maximum": HIGHEST}},
                "required": ["celsius"],
                "additionalProperties": False,
            },
        },
    ],
}


class Refused(Exception):
    """An error of the protocol: four digits, a message, details."""

    def __init__(self, code, message, **details):
        super().__init__(message)
        self.error = {"code": code, "message": message, "details": details}


class Thermostat:
    """Pretends to heat a room."""

    def __init__(self):
        # One request after the other, and none on the thread that keeps the
        # connection alive: what takes long must not look like a lost device.
        self.worker = ThreadPoolExecutor(max_workers=1)
        self.ended = SimpleQueue()  # why to end, None for no fault
        self.celsius, self.target = 19.0, 20.0

    def read(self, params):
        self.celsius += (self.target - self.celsius) / 10  # the room follows slowly
        return {"celsius": self.celsius, "target": self.target}

    def set_target(self, params):
        # A device does not rely on others for what could harm it.
        celsius = params.get("celsius")
        if isinstance(celsius, bool) or not isinstance(celsius, (int, float)):
            raise invalid("params.celsius", "must be a number")
        if not LOWEST <= celsius <= HIGHEST:
            raise invalid("params.celsius", f"must be {LOWEST} to {HIGHEST}, is {celsius:g}")
        self.target = float(celsius)
        return {"celsius": self.celsius, "target": self.target}

    def answer(self, request):
        """The result of a request of the bridge."""
        if request["command"] != "skill.invoke":
            raise Refused("1002", f"this agent does not know the command {request['command']}")
        call = request["params"]
        if call.get("skill_id") != NAME:
            raise Refused("3001", f"this agent does not serve the skill {call.get('skill_id')}")
        run = {"read": self.read, "set_target": self.set_target}.get(call.get("capability_id"))
        if run is None:
            raise Refused("3001", f"no capability {call.get('capability_id')}")
        params = call.get("params", {})
        if not isinstance(params, dict):
            raise invalid("params", "must be an object")
        return run(params)


def invalid(name, reason):
    return Refused("1001", f"{name}: {reason}", param_name=name, reason=reason)


def envelope(kind, id, **fields):
    now = int(time.time() * 1000)
    return json.dumps({"version": "0.6.3", "id": id, "timestamp": now, "type": kind, **fields})


def on_connect(client, device, flags, reason, properties=None):
    if reason != 0:
        return device.ended.put(f"the bridge refuses the connection: {reason}")
    # On every connection anew: subscriptions end with it.
    client.subscribe([(ANSWERS, 1), (REQUESTS, 1)])
    agent = {"agent_id": NAME, "type": "end_agent", "name": "Thermostat in Python", "skills": [SKILL]}
    client.publish(BRIDGE, envelope("request", str(uuid.uuid4()), command="agent.register", params=agent), qos=1)


def on_answer(client, device, message):
    response = json.loads(message.payload)
    if response["status"] != "success":
        return device.ended.put(f"the bridge refuses: {response['error']}")
    print("serving", NAME, flush=True)


def on_request(client, device, message):
    request = json.loads(message.payload)
    if request["command"] == "task.cancel":
        return  # what we do is done at once
    device.worker.submit(serve, client, device, request, message)


def serve(client, device, request, message):
    try:
        outcome = {"status": "success", "result": device.answer(request), "error": None}
    except Refused as refused:
        outcome = {"status": "failed", "result": {}, "error": refused.error}
    except Exception:
        traceback.print_exc()
        outcome = {"status": "failed", "result": {}, "error": Refused("5000", "the device failed").error}
    print(request["command"], request["params"], "->", outcome["error"] or outcome["result"], flush=True)
    properties = Properties(PacketTypes.PUBLISH)
    properties.ContentType = "application/json"
    if hasattr(message.properties, "CorrelationData"):
        properties.CorrelationData = message.properties.CorrelationData
    metadata = {"sender_id": NAME, "trace_id": request.get("metadata", {}).get("trace_id", "")}
    client.publish(RESPONSES, envelope("response", request["id"], **outcome, metadata=metadata), qos=1, properties=properties)


def main():
    url = urlparse(os.environ.get("AIBRIDGE_URL", "mqtt://127.0.0.1:1883"))
    # paho 2 wants to know which kind of callbacks these are.
    kind = [mqtt.CallbackAPIVersion.VERSION1] if hasattr(mqtt, "CallbackAPIVersion") else []
    device = Thermostat()
    client = mqtt.Client(*kind, client_id=NAME, protocol=mqtt.MQTTv5, userdata=device)
    if os.environ.get("AIBRIDGE_API_KEY"):
        client.username_pw_set("apikey", os.environ["AIBRIDGE_API_KEY"])
    client.on_connect = on_connect
    client.message_callback_add(ANSWERS, on_answer)
    client.message_callback_add(REQUESTS, on_request)
    client.reconnect_delay_set(min_delay=1, max_delay=30)
    for end in (signal.SIGTERM, signal.SIGINT):
        signal.signal(end, lambda *_: device.ended.put(None))
    if url.scheme == "mqtts":
        client.tls_set()
    client.connect_async(url.hostname, url.port or (8883 if url.scheme == "mqtts" else 1883), keepalive=30)
    client.loop_start()  # a thread for the network, which tries until the bridge is there
    fault = device.ended.get()
    client.disconnect()
    client.loop_stop()
    device.worker.shutdown(cancel_futures=True)
    sys.exit(fault)


if __name__ == "__main__":
    main()
