package main

import (
	"fmt"
	"io"
	"net"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/listen"
)

// writeWelcome shows the user who has just started a bridge its addresses and first
// commands to try.
func writeWelcome(w io.Writer, a listen.Addresses) {
	var mosquitto, url string // the options to add when the address is not the usual one
	if usual := app.DefaultConfig().MQTT.Address; a.MQTT != usual {
		host, port, _ := net.SplitHostPort(a.MQTT)
		mosquitto = " -h " + host + " -p " + port
		url = " --url mqtt://" + a.MQTT
	}
	_, _ = fmt.Fprintf(w, `
AI Bridge is running. Everybody on this machine may use it (--dev).

  Console     http://%[2]s/        in a browser: what is there, try it, decide it
  MQTT        mqtt://%[1]s   mqtts://%[6]s
  HTTP API    http://%[2]s/reference   commands, OpenAPI, /healthz, /metrics
  WebSocket   ws://%[3]s/mqtt (MQTT)   ws://%[3]s/ws (envelopes)

Try, in another terminal:

  bin/aibridge watch%[5]s
  bin/aibridge agent end%[5]s --skills examples/skills
  bin/aibridge call%[5]s skill.discover
  mosquitto_sub%[4]s -v -t 'aibridge/agent/+/card'

docs/tour.md goes on from here, and http://%[2]s/docs/ has all pages. Ctrl-C stops the bridge.

`, a.MQTT, a.HTTP, a.WS, mosquitto, url, a.MQTTS)
}
