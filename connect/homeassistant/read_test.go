package homeassistant

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/connect/device"
)

// announced reads the announcements of a program: a topic and a payload in turns.
func announced(t testing.TB, program string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + program + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	list := map[string]string{}
	for i := 0; i+1 < len(lines); i += 2 {
		list[strings.TrimSuffix(strings.TrimPrefix(lines[i], "homeassistant/"), "/config")] = lines[i+1]
	}
	return list
}

func newReader() *reader {
	return &reader{root: "aibridge", prefix: "homeassistant", allows: func(string) bool { return true }}
}

func readAt(r *reader, at, payload string) (*device.Device, error) {
	a, ok := parseAddress("homeassistant", "homeassistant/"+at+"/config")
	if !ok {
		return nil, fmt.Errorf("no address")
	}
	return r.read(a, []byte(payload))
}

// A said is a message and what it tells.
type said struct{ topic, payload, tells string }

// An asked is a call and what is published for it.
type asked struct{ skill, capability, params, publishes string }

func TestRecordedAnnouncementsBecomeDevices(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		program, at string
		agent, name string
		risk        string // of all that acts
		asked       []asked
		said        []said
	}{
		{
			program: "zigbee2mqtt", at: "light/0x00158d00018255df/light", agent: "ha.light.0x00158d00018255df.light", name: "hall_lamp",
			asked: []asked{
				{"", "set", `{"on":true}`, `zigbee2mqtt/hall_lamp/set {"state":"ON"}`},
				{"", "set", `{"on":false}`, `zigbee2mqtt/hall_lamp/set {"state":"OFF"}`},
				{"", "set", `{"brightness":50,"color_temp":370,"effect":"blink","transition":2}`, `zigbee2mqtt/hall_lamp/set {"brightness":127,"color_temp":370,"effect":"blink","state":"ON","transition":2}`},
			},
			said: []said{
				{"zigbee2mqtt/bridge/state", `{"state":"online"}`, "presence=online"},
				{"zigbee2mqtt/hall_lamp", `{"state":"ON","brightness":127,"color_temp":370,"linkquality":97}`, "on=true brightness=50 color_temp=370"},
			},
		},
		{
			program: "zigbee2mqtt", at: "sensor/0x00158d00018255df/linkquality", agent: "ha.sensor.0x00158d00018255df.linkquality", name: "hall_lamp Linkquality",
			said: []said{{"zigbee2mqtt/hall_lamp", `{"linkquality":97}`, "value=97"}},
		},
		{
			program: "zigbee2mqtt", at: "lock/0x000d6f0011223344/lock", agent: "ha.lock.0x000d6f0011223344.lock", name: "front_door", risk: "high",
			asked: []asked{{"", "unlock", `{}`, "zigbee2mqtt/front_door/set UNLOCK"}, {"", "lock", `{}`, "zigbee2mqtt/front_door/set LOCK"}},
			said:  []said{{"zigbee2mqtt/front_door", `{"state":"UNLOCK"}`, "state=unlocked"}},
		},
		{
			program: "zigbee2mqtt", at: "cover/0x1/cover", agent: "ha.cover.0x1.cover", name: "blind",
			asked: []asked{{"", "open", `{}`, "zigbee2mqtt/blind/set OPEN"}, {"", "set_position", `{"position":40}`, `zigbee2mqtt/blind/set { "position": 40 }`}},
			said: []said{
				{"zigbee2mqtt/blind", `{"moving":"UP","position":40}`, "state=opening position=40"},
				{"zigbee2mqtt/blind", `{"position":0}`, "state=stopped position=0"},
			},
		},
		{
			program: "zigbee2mqtt", at: "binary_sensor/0x2/occupancy", agent: "ha.binary_sensor.0x2.occupancy", name: "motion Occupancy",
			said: []said{{"zigbee2mqtt/motion", `{"occupancy":true}`, "on=true"}, {"zigbee2mqtt/motion/availability", `{"state":"offline"}`, "presence=offline"}},
		},
		{
			program: "zigbee2mqtt", at: "climate/0x3/climate", agent: "ha.climate.0x3.climate", name: "trv",
			asked: []asked{{"", "set", `{"temperature":21.5,"mode":"heat"}`, "zigbee2mqtt/trv/set/system_mode heat, zigbee2mqtt/trv/set/occupied_heating_setpoint 21.5"}},
			said: []said{{
				"zigbee2mqtt/trv", `{"local_temperature":19.5,"occupied_heating_setpoint":21.5,"system_mode":"heat","running_state":"heat"}`,
				"current_temperature=19.5 action=heating mode=heat temperature=21.5",
			}},
		},
		{
			program: "zigbee2mqtt", at: "select/0x4/power_on_behavior", agent: "ha.select.0x4.power_on_behavior", name: "plug Power-on behavior",
			asked: []asked{{"", "set", `{"option":"previous"}`, "zigbee2mqtt/plug/set/power_on_behavior previous"}},
		},
		{
			program: "tasmota", at: "switch/6F2A3C_RL_1", agent: "ha.switch.6F2A3C_RL_1", name: "Tasmota Plug",
			asked: []asked{{"", "set", `{"on":true}`, "cmnd/tasmota_6F2A3C/POWER ON"}},
			said:  []said{{"tele/tasmota_6F2A3C/LWT", "Online", "presence=online"}, {"tele/tasmota_6F2A3C/STATE", `{"POWER":"OFF"}`, "on=false"}},
		},
		{
			program: "tasmota", at: "light/6F2A3D_LI_1", agent: "ha.light.6F2A3D_LI_1", name: "Strip",
			asked: []asked{
				{"", "set", `{"brightness":30,"color_temp":200}`, "cmnd/strip/Dimmer 30, cmnd/strip/CT 200, cmnd/strip/POWER ON"},
				{"", "set", `{"on":false}`, "cmnd/strip/POWER OFF"},
				{"", "set", `{"effect":"2"}`, "cmnd/strip/Scheme 2, cmnd/strip/POWER ON"},
			},
			said: []said{{"tele/strip/STATE", `{"POWER":"ON","Dimmer":30,"CT":200,"Scheme":0}`, "on=true brightness=30 color_temp=200 effect=0"}},
		},
		{
			program: "tasmota", at: "sensor/6F2A3C_ENERGY_Power", agent: "ha.sensor.6F2A3C_ENERGY_Power", name: "Tasmota ENERGY Power",
			said: []said{{"tele/tasmota_6F2A3C/SENSOR", `{"ENERGY":{"Power":12}}`, "value=12"}, {"tele/tasmota_6F2A3C/SENSOR", `{"Time":1}`, ""}},
		},
		{
			program: "esphome", at: "switch/kitchen/relay", agent: "ha.switch.kitchen.relay", name: "kitchen Relay",
			asked: []asked{{"", "set", `{"on":false}`, "kitchen/switch/relay/command OFF"}},
			said:  []said{{"kitchen/switch/relay/state", "ON", "on=true"}},
		},
		{
			program: "esphome", at: "number/kitchen/threshold", agent: "ha.number.kitchen.threshold", name: "kitchen Threshold",
			asked: []asked{{"", "set", `{"value":21.5}`, "kitchen/number/threshold/command 21.5"}},
			said:  []said{{"kitchen/number/threshold/state", "21.5", "value=21.5"}},
		},
		{
			program: "esphome", at: "button/kitchen/restart", agent: "ha.button.kitchen.restart", name: "kitchen Restart",
			asked: []asked{{"", "press", `{}`, "kitchen/button/restart/command PRESS"}},
		},
		{
			program: "esphome", at: "cover/kitchen/garage", agent: "ha.cover.kitchen.garage", name: "kitchen Garage", risk: "high",
			asked: []asked{{"", "open", `{}`, "kitchen/cover/garage/command OPEN"}, {"", "set_position", `{"position":10}`, "kitchen/cover/garage/position/command 10"}},
			said:  []said{{"kitchen/cover/garage/state", "opening", "state=opening"}, {"kitchen/cover/garage/position/state", "7", "position=7"}},
		},
		{
			program: "esphome", at: "light/kitchen/bulb", agent: "ha.light.kitchen.bulb", name: "kitchen Bulb",
			asked: []asked{{"", "set", `{"brightness":100,"effect":"Rainbow"}`, `kitchen/light/bulb/command {"brightness":255,"effect":"Rainbow","state":"ON"}`}},
			said:  []said{{"kitchen/light/bulb/state", `{"state":"OFF","brightness":51,"effect":"None"}`, "on=false brightness=20 effect=None"}},
		},
		{
			program: "esphome", at: "climate/kitchen/heater", agent: "ha.climate.kitchen.heater", name: "kitchen Heater",
			asked: []asked{{"", "set", `{"temperature":22}`, "kitchen/climate/heater/target_temperature/command 22"}},
			said:  []said{{"kitchen/climate/heater/mode/state", "heat", "mode=heat"}, {"kitchen/status", "online", "presence=online"}},
		},
		{
			program: "esphome", at: "device/0AFFD2", agent: "ha.device.0AFFD2", name: "Kitchen hub", risk: "high",
			asked: []asked{{".valve", "close", `{}`, "hub/valve/set CLOSE"}},
			said:  []said{{"hub/state", `{"temperature":21}`, "value=21"}},
		},
	} {
		d, err := readAt(newReader(), test.at, announced(t, test.program)[test.at])
		if err != nil {
			t.Errorf("%s %s: %v", test.program, test.at, err)
			continue
		}
		if string(d.Agent) != test.agent || d.Name != test.name {
			t.Errorf("%s: %s, %s", test.at, d.Agent, d.Name)
		}
		for _, s := range d.Skills {
			for _, c := range s.Capabilities {
				if want := cmp.Or(test.risk, "medium"); c.Risk != want {
					t.Errorf("%s %s: risk %q", test.at, c.ID, c.Risk)
				}
			}
		}
		for _, a := range test.asked {
			if got := published(t, d, a); got != a.publishes {
				t.Errorf("%s %s %s:\n%s\nwant\n%s", test.at, a.capability, a.params, got, a.publishes)
			}
		}
		for _, s := range test.said {
			if got := told(d, s); got != s.tells {
				t.Errorf("%s %s: %s, want %s", test.at, s.payload, got, s.tells)
			}
		}
	}
}

func published(t *testing.T, d *device.Device, a asked) string {
	t.Helper()
	c := d.Find(string(d.Agent)+a.skill, a.capability)
	if c == nil {
		return "no such capability"
	}
	messages, err := c.Messages(json.RawMessage(a.params), "aibridge")
	if err != nil {
		return err.Error()
	}
	var list []string
	for _, m := range messages {
		list = append(list, m.Topic+" "+string(m.Payload))
	}
	return strings.Join(list, ", ")
}

func told(d *device.Device, s said) string {
	var list []string
	for _, told := range d.Tell(s.topic, []byte(s.payload)) {
		if told.Err == nil {
			what := told.What[strings.LastIndexByte(told.What, '.')+1:]
			list = append(list, fmt.Sprintf("%s=%v", what, told.Value))
		}
	}
	return strings.Join(list, " ")
}

func TestWhatIsNotUnderstoodOrAllowedIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	r := newReader()
	r.allows = func(topic string) bool { return !strings.HasPrefix(topic, "secret/") }
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	for payload, want := range map[string]string{
		"{":  "it is not JSON",
		"[]": "the announcement is no object",
		deep: "nested too deep",
		`{"x":"` + strings.Repeat("x", 200<<10) + `"}`: "more than 131072 bytes",
		`{}`:                                  "command_topic: is missing",
		`{"cmd_t":"a/+/b"}`:                   "command_topic: the topic has a wildcard",
		`{"cmd_t":"#"}`:                       "command_topic: the topic has a wildcard",
		`{"cmd_t":"$SYS/x"}`:                  "command_topic: topics that begin with $",
		`{"cmd_t":"aibridge/bridge/request"}`: "topics below aibridge are the bridge's own",
		`{"cmd_t":"homeassistant/switch/x/config"}`:                               "announcements are made there",
		`{"cmd_t":"homeassistant/status"}`:                                        "announcements are made there",
		`{"cmd_t":"secret/door"}`:                                                 "none of connect.homeassistant.topics",
		`{"cmd_t":7}`:                                                             "command_topic: is no topic",
		`{"cmd_t":"a{{ x }}b"}`:                                                   "command_topic: is no topic",
		`{"~":"~/x","cmd_t":"~/set"}`:                                             "~: the base is no topic, or names itself",
		`{"~":"aibridge","cmd_t":"~/bridge/request"}`:                             "topics below aibridge are the bridge's own",
		`{"~":{"a":1},"cmd_t":"~/set"}`:                                           "~: the base is no topic",
		`{"cmd_t":"a","command_topic":"b"}`:                                       "cmd_t and command_topic are there both",
		`{"cmd_t":"a","stat_t":"b","val_tpl":"{{ states('lock.door') }}"}`:        "value_template: the function states is not understood",
		`{"cmd_t":"a","stat_t":"b","val_tpl":"{{ value_json.x | as_datetime }}"}`: `value_template: the filter "as_datetime" is not understood`,
		`{"cmd_t":"a","stat_t":"b","val_tpl":"{{ this.state }}"}`:                 "value_template: the variable this is not understood",
		`{"cmd_t":"a","stat_t":"b","e":""}`:                                       "encoding: only utf-8 is understood",
		`{"cmd_t":"a","avty_mode":"some"}`:                                        `availability_mode: "some" is none of all, any, latest`,
		`{"cmd_t":"a","avty":[{"t":"#"}]}`:                                        "availability: topic: the topic has a wildcard",
		`{"cmd_t":"a","avty":["x"]}`:                                              "availability: is no object",
		`{"cmd_t":"a","qos":3}`:                                                   "qos: is none of 0, 1, 2",
	} {
		if _, err := readAt(r, "switch/x", payload); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", payload, err, want)
		}
	}
	for at, test := range map[string]struct{ payload, want string }{
		"vacuum/x": {`{}`, `the component "vacuum" is not understood`},
		"lock/x":   {`{"cmd_t":"a","cod_form":"^\\d+$"}`, "a lock that wants a code is not understood"},
		"select/x": {`{"cmd_t":"a","ops":[]}`, "options: is no list"},
		"number/x": {`{"cmd_t":"a","min":5,"max":1}`, "min: is above max"},
		"light/x":  {`{"cmd_t":"a","schema":"odd"}`, `schema: "odd" is not understood`},
		"sensor/x": {`{}`, "neither takes commands nor tells a state"},
		"device/x": {`{}`, "components: there are none"},
		"device/y": {`{"cmps":{"a/b":{"p":"sensor","stat_t":"t"}}}`, "nothing of it is understood"},
		"device/z": {`{"cmps":{"a":{"p":"sensor","stat_t":"t"},"b":{"p":"vacuum","x":1}}}`, `components.b: the component "vacuum" is not understood`},
	} {
		if _, err := readAt(r, at, test.payload); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", at, err, test.want)
		}
	}
}

func TestWordsThatAreTooLongForATemplateAreRefused(t *testing.T) {
	t.Parallel()
	for component, field := range map[string]string{
		"switch": "payload_on", "light": "payload_off", "button": "payload_press", "lock": "payload_unlock", "cover": "payload_stop",
	} {
		long := strings.Repeat(`\\`, 9<<10)
		_, err := readAt(newReader(), component+"/a", `{"command_topic": "a/set", "`+field+`": "`+long+`"}`)
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", component, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for topic, want := range map[string]string{
		"homeassistant/light/a/config":     "ha.light.a",
		"homeassistant/light/n/a/config":   "ha.light.n.a",
		"homeassistant/light/config":       "",
		"homeassistant/light/a/b/c/config": "",
		"homeassistant/light/a.b/config":   "",
		"homeassistant/light//config":      "",
		"homeassistant/light/é/config":     "",
		"homeassistant/light/a/state":      "",
		"other/light/a/config":             "",
	} {
		a, ok := parseAddress("homeassistant", topic)
		if ok != (want != "") || ok && string(a.agent()) != want {
			t.Errorf("%s: %s", topic, a.agent())
		}
	}
	one, _ := parseAddress("homeassistant", "homeassistant/light/"+strings.Repeat("x", 100)+"/config")
	other, _ := parseAddress("homeassistant", "homeassistant/light/"+strings.Repeat("x", 101)+"/config")
	if len(one.agent()) > 64 || one.agent() == other.agent() {
		t.Error(one.agent(), other.agent())
	}
	// What a long id became is no other announcement's to take.
	node, object, _ := strings.Cut(strings.TrimPrefix(string(one.agent()), "ha.light."), ".")
	taker, ok := parseAddress("homeassistant", "homeassistant/light/"+node+"/"+object+"/config")
	if !ok || taker.agent() == one.agent() {
		t.Error(ok, taker.agent())
	}
}

func TestATemplateLight(t *testing.T) {
	t.Parallel()
	d, err := readAt(newReader(), "light/x", `{"schema":"template","cmd_t":"l/set","stat_t":"l/state","name":"L\u202eamp\n",
		"cmd_on_tpl":"on,{{ brightness | default('') }}","cmd_off_tpl":"off","stat_tpl":"{{ value.split(',')[0] }}","bri_tpl":"{{ value.split(',')[1] }}"}`)
	if err != nil {
		t.Fatal(err)
	}
	if d.Name != "Lamp" {
		t.Errorf("name %q", d.Name)
	}
	for params, want := range map[string]string{`{"on":true}`: "l/set on,", `{"brightness":100}`: "l/set on,255", `{"on":false}`: "l/set off"} {
		if got := published(t, d, asked{"", "set", params, ""}); got != want {
			t.Errorf("%s: %s", params, got)
		}
	}
	if got := told(d, said{"l/state", "on,51", ""}); got != "on=true brightness=20" {
		t.Error(got)
	}
}

func FuzzAnnouncement(f *testing.F) {
	for _, program := range []string{"zigbee2mqtt", "tasmota", "esphome"} {
		for at, payload := range announced(f, program) {
			f.Add(at, []byte(payload))
		}
	}
	f.Fuzz(func(t *testing.T, at string, payload []byte) {
		a, ok := parseAddress("homeassistant", "homeassistant/"+at+"/config")
		if !ok {
			return
		}
		d, err := newReader().read(a, payload)
		if err != nil {
			return
		}
		if reason := d.Agent.Rule().Check(string(d.Agent)); reason != "" {
			t.Errorf("agent %q %s", d.Agent, reason)
		}
		for _, topic := range d.Topics() {
			if err := device.CheckTopic(topic, "aibridge"); err != nil {
				t.Errorf("topic %q: %v", topic, err)
			}
			d.Tell(topic, []byte(`{"state":"ON"}`))
		}
		for i := range d.Skills {
			for j := range d.Skills[i].Capabilities {
				c := &d.Skills[i].Capabilities[j]
				if !json.Valid(c.Params) {
					t.Errorf("params %s", c.Params)
				}
				messages, _ := c.Messages([]byte(`{"on":true,"brightness":5,"value":1,"option":"x"}`), "aibridge")
				for _, m := range messages {
					if err := device.CheckTopic(m.Topic, "aibridge"); err != nil {
						t.Errorf("topic %q: %v", m.Topic, err)
					}
				}
			}
		}
	})
}
