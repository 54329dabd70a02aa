package app

import (
	"fmt"
	"io"
	"net"
)

// WriteWelcome tells a person who has just started a bridge where to connect
// and what to try.
func WriteWelcome(w io.Writer, a Addresses) {
	host, port, _ := net.SplitHostPort(a.MQTT)
	flags := ""
	if host != "127.0.0.1" {
		flags += " -h " + host
	}
	if port != "1883" {
		flags += " -p " + port
	}
	_, _ = fmt.Fprintf(w, `
AI Bridge is running. Everybody on this machine may use it (--dev).

  MQTT        mqtt://%[1]s
  HTTP API    http://%[2]s/        commands, OpenAPI, /healthz, /metrics
  WebSocket   ws://%[3]s/mqtt (MQTT)   ws://%[3]s/ws (envelopes)

Try, in another terminal:

  bin/aibridge watch --url mqtt://%[1]s
  bin/aibridge agent end --url mqtt://%[1]s --skills examples/skills
  bin/aibridge call --url mqtt://%[1]s skill.discover
  mosquitto_sub%[4]s -v -t 'aibridge/agent/+/card'

The README's tour goes on from here. Ctrl-C stops the bridge.

`, a.MQTT, a.HTTP, a.WS, flags)
}
