// Package topic serves A2A over MQTT, profile 0.1
// (https://www.emqx.com/mqtt-for-ai/a2a-over-mqtt/specification/0.1/basic/mqtt_transport.html):
// the registry of cards, the rules of its topics, and the bridge's own agents.
//
// Agents that are MQTT clients talk to each other through the broker, and the bridge
// ensures that each acts for itself alone: a client publishes the card of its own
// client id, receives the requests to it, and answers those. Cards are records, so that
// they survive a restart of the bridge; retained messages are made of them, with the
// status of their clients at the broker. No card and no message leaves its space.
package topic
