package link

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestSettingsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`{name: a, url: "mqtt://h", principal: k, out: [{topic: x}]}`:                                                           "",
		`{name: a, url: "mqtts://h:1", principal: k, username: u, password_file: f, in: [{topic: "#", remote: "$aws/"}]}`:       "",
		`{name: A, url: "mqtt://h", principal: k, out: [{topic: x}]}`:                                                           "name",
		`{name: a, url: "http://h", principal: k, out: [{topic: x}]}`:                                                           "url",
		`{name: a, url: "mqtt://u:p@h", principal: k, out: [{topic: x}]}`:                                                       "without a password",
		`{name: a, url: "mqtt://h.example.com", principal: k, username: u, password_file: f, out: [{topic: x}]}`:                "in the clear",
		`{name: a, url: "mqtt://h", ca: f, principal: k, out: [{topic: x}]}`:                                                    "mqtts",
		`{name: a, url: "mqtt://h", version: "4", principal: k, out: [{topic: x}]}`:                                             "neither 5 nor 3.1.1",
		`{name: a, url: "mqtt://h", bridge_bit: true, principal: k, out: [{topic: x}]}`:                                         "bridge_bit",
		`{name: a, url: "mqtts://h", cert: c, principal: k, out: [{topic: x}]}`:                                                 "go together",
		`{name: a, url: "mqtt://h", out: [{topic: x}]}`:                                                                         "principal",
		`{name: a, url: "mqtt://h", principal: k}`:                                                                              "out or in",
		`{name: a, url: "mqtt://h", principal: k, out: [{topic: ""}]}`:                                                          "missing",
		`{name: a, url: "mqtt://h", principal: k, out: [{topic: "a#"}]}`:                                                        "topic filter",
		`{name: a, url: "mqtt://h", principal: k, out: [{topic: "x", local: "+/"}]}`:                                            "wildcard",
		`{name: a, url: "mqtt://h", principal: k, out: [{topic: "x", qos: 3}]}`:                                                 "qos",
		`{name: a, url: "mqtt://h", principal: k, out: [{topic: "x", retain: yes}]}`:                                            "retain",
		`{name: a, url: "mqtt://h", principal: k, in: [{topic: "#", local: "aibridge/"}]}`:                                      "bridge's own",
		`{name: a, url: "mqtt://h", principal: k, in: [{topic: "#", local: "$SYS/"}]}`:                                          "begin with $",
		`{name: a, url: "mqtt://h", principal: k, in: [{topic: "#", remote: "$share/g/"}]}`:                                     "something else",
		`{name: a, url: "mqtt://h", principal: k, out: [{topic: "x/+"}, {topic: "+/y"}]}`:                                       "carried twice",
		`{name: a, url: "mqtt://h", principal: k, out: [{topic: "x", local: "a/", remote: "c/"}, {topic: "x", remote: "c/"}]}`:  "carried twice",
		`{name: a, url: "mqtt://h", version: "3.1.1", principal: k, out: [{topic: "x/#"}], in: [{topic: "#"}]}`:                 "sends back",
		`{name: a, url: "mqtt://h", version: "3.1.1", bridge_bit: true, principal: k, out: [{topic: "x"}], in: [{topic: "#"}]}`: "",
		`{name: a, url: "mqtt://h", principal: k, keep_alive_seconds: 1, out: [{topic: x}]}`:                                    "keep_alive_seconds",
		`{name: a, url: "mqtt://h", principal: k, status_topic: "a/+", out: [{topic: x}]}`:                                      "status_topic",
	} {
		var c Config
		if err := yaml.Unmarshal([]byte(text), &c); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var faults []string
		Check([]Config{c}, "aibridge", false, func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...).Error()) })
		got := strings.Join(faults, "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestRulesHaveQoS1UnlessTheySayOtherwise(t *testing.T) {
	var c Config
	if err := yaml.Unmarshal([]byte(`{out: [{topic: x}, {topic: y, qos: 0}]}`), &c); err != nil || c.Out[0].QoS != 1 || c.Out[1].QoS != 0 {
		t.Errorf("%+v %v", c.Out, err)
	}
}

func TestTopicsAreExchanged(t *testing.T) {
	rules := []Rule{{Topic: "#", Local: "site/", Remote: "eu/berlin/"}, {Topic: "+/set", Remote: "z/"}, {Topic: "#", Local: "all/"}}
	out, in := way{rules: rules, outbound: true, reserved: "aibridge"}, way{rules: rules, reserved: "aibridge"}
	for here, there := range map[string]string{"site/a/b": "eu/berlin/a/b", "site": "eu/berlin", "lamp/set": "z/lamp/set", "all/a": "a", "site/": "eu/berlin/"} {
		if got, _ := out.carry(here); got != there {
			t.Errorf("%s goes to %q, want %q", here, got, there)
		}
		if got, _ := in.carry(there); got != here {
			t.Errorf("%s comes to %q, want %q", there, got, here)
		}
	}
	bare := way{rules: []Rule{{Topic: "#", Remote: "x/"}}, reserved: "aibridge"}
	for _, there := range []string{"x/$a2a/v1/request/acme/bridge/aibridge", "x/$SYS/y", "x/$x", "x/aibridge/command"} {
		if got, rule := bare.carry(there); rule != nil {
			t.Errorf("%s comes to %q", there, got)
		}
		if got := bare.back(there, &bare); got != "" {
			t.Errorf("answers to %s come to %q", there, got)
		}
	}
	for _, here := range []string{"all", "aibridge/set", "sites/x", "$SYS/set"} {
		if got, rule := out.carry(here); rule != nil {
			t.Errorf("%s goes to %q", here, got)
		}
	}
}
