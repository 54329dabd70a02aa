package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// TestBadInputIsAnsweredPreciselyByEveryDoor sends what devices get wrong
// over MQTT, HTTP and WebSocket: each time there is one answer, with the code
// and the place of the mistake, and the bridge goes on.
func TestBadInputIsAnsweredPreciselyByEveryDoor(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, func(c *app.Config) { c.Limits.Payload = 4096 })
	serveThermostat(t, n)
	caller := n.Caller(t, "caller")

	envelope := func(change string) string {
		return `{"version":"0.6.3","id":"x","timestamp":0,"type":"request","command":"skill.discover","params":{},"metadata":{}` + change + `}`
	}
	with := func(old, new string) string { return strings.Replace(envelope(""), old, new, 1) }
	stale := time.Now().Add(-time.Hour).UnixMilli()
	tests := map[string]struct {
		body string
		code protocol.Code
		says string // part of param_name, reason or message
	}{
		"not JSON":               {`hello`, protocol.MalformedEnvelope, ""},
		"nothing":                {``, protocol.MalformedEnvelope, ""},
		"an array":               {`[]`, protocol.MalformedEnvelope, "object"},
		"cut off":                {envelope("")[:40], protocol.MalformedEnvelope, ""},
		"trailing data":          {envelope("") + `{}`, protocol.MalformedEnvelope, ""},
		"invalid UTF-8":          {with(`"x"`, "\"\xff\""), protocol.MalformedEnvelope, "UTF-8"},
		"a duplicate key":        {envelope(`,"id":"y"`), protocol.MalformedEnvelope, "id"},
		"a nested duplicate key": {with(`"params":{}`, `"params":{"text":"a","text":"b"}`), protocol.MalformedEnvelope, "text"},
		"NaN":                    {with(`"timestamp":0`, `"timestamp":NaN`), protocol.MalformedEnvelope, ""},
		"a leading zero":         {with(`"timestamp":0`, `"timestamp":007`), protocol.MalformedEnvelope, ""},
		"a timestamp as text":    {with(`"timestamp":0`, `"timestamp":"0"`), protocol.MalformedEnvelope, "timestamp"},
		"a null id":              {with(`"id":"x"`, `"id":null`), protocol.MalformedEnvelope, "id"},
		"an empty id":            {with(`"id":"x"`, `"id":""`), protocol.MalformedEnvelope, "id"},
		"a long id":              {with(`"id":"x"`, `"id":"`+strings.Repeat("x", 65)+`"`), protocol.MalformedEnvelope, "id"},
		"no command":             {with(`"command":"skill.discover",`, ``), protocol.MalformedEnvelope, "command"},
		"params as text":         {with(`"params":{}`, `"params":"a"`), protocol.MalformedEnvelope, "params"},
		"too deep":               {with(`"params":{}`, `"params":{"a":`+strings.Repeat("[", 70)+strings.Repeat("]", 70)+`}`), protocol.MalformedEnvelope, "deep"},
		"too large":              {with(`"params":{}`, `"params":{"text":"`+strings.Repeat("x", 8000)+`"}`), protocol.PayloadTooLarge, ""},
		"an unknown version":     {with(`0.6.3`, `0.7.0`), protocol.UnsupportedVersion, ""},
		"a priority nobody has":  {with(`"metadata":{}`, `"metadata":{"priority":"urgent"}`), protocol.MalformedEnvelope, "priority"},
		"an endless timeout":     {with(`"metadata":{}`, `"metadata":{"timeout":6000000}`), protocol.MalformedEnvelope, "timeout"},
		"too old":                {with(`"timestamp":0`, fmt.Sprintf(`"timestamp":%d`, stale)), protocol.RequestExpired, ""},
		"a timestamp in seconds": {with(`"timestamp":0`, `"timestamp":1795285409`), protocol.RequestExpired, "milliseconds"},
		"a command nobody knows": {with(`skill.discover`, `discover_skills`), protocol.UnknownCommand, "bridge.describe"},
		"what is for the skill, beside it": {with(`"command":"skill.discover","params":{}`,
			`"command":"skill.invoke","params":{"skill_id":"thermostat","capability_id":"read","room":"hall"}`), protocol.InvalidParameter, "params.room"},
		"an unknown command":        {with(`skill.discover`, `skill.discovre`), protocol.UnknownCommand, "skill.discover"},
		"an unknown parameter":      {with(`"params":{}`, `"params":{"capabilty":"x"}`), protocol.InvalidParameter, "capability"},
		"a missing parameter":       {with(`skill.discover`, `agent.get`), protocol.InvalidParameter, "agent_id"},
		"a parameter of wrong type": {with(`"params":{}`, `"params":{"limit":"ten"}`), protocol.InvalidParameter, "limit"},
		"out of range":              {with(`"params":{}`, `"params":{"limit":1001}`), protocol.InvalidParameter, "limit"},
		"an id with topic characters": {with(`"command":"skill.discover","params":{}`, `"command":"agent.register","params":{"agent_id":"a/b","type":"end_agent"}`),
			protocol.InvalidParameter, "agent_id"},
		"what the skill's schema refuses": {with(`"command":"skill.discover","params":{}`,
			`"command":"skill.invoke","params":{"skill_id":"thermostat","capability_id":"read","params":{"room":5}}`),
			protocol.InvalidParameter, "params.room"},
		"a skill that is not there": {with(`"command":"skill.discover","params":{}`,
			`"command":"skill.invoke","params":{"skill_id":"teapot","capability_id":"brew"}`), protocol.NotFound, ""},
		"a capability that is misspelt": {with(`"command":"skill.discover","params":{}`,
			`"command":"skill.invoke","params":{"skill_id":"thermostat","capability_id":"raed"}`), protocol.NotFound, "did_you_mean:read"},
		"a capability that is not there": {with(`"command":"skill.discover","params":{}`,
			`"command":"skill.invoke","params":{"skill_id":"thermostat","capability_id":"brew"}`), protocol.NotFound, ""},
	}
	number := 0
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			number++
			test.body = strings.ReplaceAll(test.body, `"id":"x"`, fmt.Sprintf(`"id":"x%d"`, number))
			_, body := post(t, n.HTTPURL("/api/v1/commands"), test.body)
			answers := map[string]*protocol.Response{"MQTT": caller.Ask(t, test.body), "HTTP": decode(t, body)}
			if len(test.body) < 4096 { // more than a message may have closes a WebSocket
				answers["WebSocket"] = askWebSocket(t, "ws://"+n.WS+"/ws", test.body)
			}
			for door, answer := range answers {
				if answer.Err == nil || answer.Err.Code != test.code {
					t.Errorf("%s: got %v, want %s", door, answer.Err, test.code)
					continue
				}
				if told := fmt.Sprint(answer.Err.Message, answer.Err.Details); !strings.Contains(told, test.says) {
					t.Errorf("%s: %q does not say %q", door, told, test.says)
				}
			}
		})
	}
}

func TestTheSameRequestRunsOnce(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	device := n.Device(t, "lamp-1", "lamp", `["switch"]`)
	first, second := n.Caller(t, "first"), n.Caller(t, "second")
	invoke := bridgetest.Request("same", "skill.invoke", `{"skill_id":"lamp","capability_id":"switch"}`)

	first.Send(t, "aibridge/bridge/request", invoke)
	call := device.Invocation(t)
	second.Send(t, "aibridge/bridge/request", invoke) // joins the one that runs
	device.Reply(t, "lamp-1", call, map[string]bool{"on": true})
	a, b := first.Answer(t), second.Answer(t)
	third := first.Ask(t, invoke) // gets the stored answer
	for _, r := range []*protocol.Response{a, b, third} {
		if r.Err != nil || string(r.Result) != string(a.Result) {
			t.Errorf("answers differ: %s and %s, %v", a.Result, r.Result, r.Err)
		}
	}
	other := first.Ask(t, bridgetest.Request("same", "skill.invoke", `{"skill_id":"lamp","capability_id":"switch","params":{"on":false}}`))
	if protocol.CodeOf(errorOf(other)) != protocol.IDReused {
		t.Errorf("another body under the same id: %v", other.Err)
	}
	select {
	case p := <-device.Received:
		t.Errorf("the device was asked again: %s", p.Payload)
	default:
	}
}

func errorOf(r *protocol.Response) error {
	if r.Err == nil {
		return nil
	}
	return r.Err
}
