package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/commands"
)

// A bridge has several doors, and --url is the address of any of them. The address
// of another is found by bridge.describe, which returns the ports.

// overHTTP reports whether an address is that of a door for HTTP.
func overHTTP(address string) bool {
	return strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")
}

// askDescribe asks for the doors, and for nothing else that is long.
var askDescribe = map[string]any{"command": "bridge.describe"}

// findMQTT finds where MQTT is if --url is the address of a door for HTTP.
func (t *target) findMQTT(ctx context.Context) error {
	if !overHTTP(t.url) || t.mqtt != "" {
		return nil
	}
	door, err := t.httpDoor(ctx)
	if err != nil {
		return err
	}
	defer door.close()
	answer, err := door.call(ctx, "bridge.describe", askDescribe)
	if err != nil {
		return err
	}
	var said commands.DescribeResult
	if err := json.Unmarshal(answer, &said); err != nil {
		return fmt.Errorf("%s answered with something that is no answer: %w", t.url, err)
	}
	t.mqtt, err = mqttBeside(t.url, said.Doors, t.cert != "")
	return err
}

// errNoDoors is the error for bridges of earlier versions, and for ports that are
// mapped on the way.
var errNoDoors = usageError{errors.New("the bridge does not tell where its other doors are: give their address by --url")}

// mqttBeside is the address of MQTT on the host of a door for HTTP: with TLS if
// that has it, or if it must.
func mqttBeside(address string, doors *commands.Doors, mustTLS bool) (string, error) {
	at, err := url.Parse(address)
	if err != nil {
		return "", usageError{err}
	}
	secure := mustTLS || at.Scheme == "https"
	switch {
	case doors == nil:
	case secure && doors.MQTTS != 0:
		return beside(at, "mqtts", doors.MQTTS, ""), nil
	case secure && doors.WS != 0, doors.WS != 0 && doors.TLSOnly && doors.MQTT == 0:
		return beside(at, "wss", doors.WS, "/mqtt"), nil
	case doors.MQTT != 0:
		return beside(at, "mqtt", doors.MQTT, ""), nil
	case doors.WS != 0:
		return beside(at, "ws", doors.WS, "/mqtt"), nil
	}
	return "", errNoDoors
}

func beside(at *url.URL, scheme string, port int, path string) string {
	return scheme + "://" + net.JoinHostPort(at.Hostname(), strconv.Itoa(port)) + path
}

// httpURL is the base URL of the bridge's HTTP door, which is asked for if --url
// is the address of another.
func (t *target) httpURL(ctx context.Context) (string, error) {
	if t.url == "" || overHTTP(t.url) {
		return t.httpAddress(), t.checkFolder()
	}
	c, err := t.dial(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	said, err := client.Call[commands.DescribeResult](ctx, c, "bridge.describe", askDescribe)
	if err != nil {
		return "", err
	}
	return httpBeside(t.url, said.Doors, t.cert != "")
}

// httpBeside is the base URL of HTTP on the host of a door for MQTT: with TLS if
// that has it, or if it must.
func httpBeside(address string, doors *commands.Doors, mustTLS bool) (string, error) {
	at, err := url.Parse(address)
	if err != nil {
		return "", usageError{err}
	}
	if doors == nil || doors.HTTP == 0 {
		return "", errNoDoors
	}
	switch at.Scheme {
	case "mqtts", "tls", "ssl", "wss":
		mustTLS = true
	}
	if mustTLS || doors.TLSOnly {
		return beside(at, "https", doors.HTTP, ""), nil
	}
	return beside(at, "http", doors.HTTP, ""), nil
}

// httpAddress is the base URL of HTTP from --url or the data folder. A client
// certificate needs TLS.
func (t *target) httpAddress() string {
	if t.url != "" {
		return strings.TrimSuffix(t.url, "/")
	}
	a := t.addresses()
	if a.TLSOnly || t.cert != "" {
		return "https://" + a.HTTP
	}
	return "http://" + a.HTTP
}
