package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// talkAboutSkills goes through the life of an agent and its skill.
func talkAboutSkills(t *testing.T) {
	k := begin(t)
	device := k.Device(t, "converter", "temperature_converter_001", `["celsius_to_fahrenheit"]`) // registers over MQTT
	k.does("agent.register", `{"agent_id":"route_agent_001","type":"mcp_agent","endpoints":["http://192.168.1.100:9010","ws://192.168.1.100:9011"]}`, `"agent_id":"route_agent_001"`)
	k.does("skill.discover", `{"space_id":"default","capability":"celsius_to_fahrenheit"}`, `"skill_id":"temperature_converter_001"`, `"agent_id":"converter"`, `"status":"online"`)
	k.does("skill.discover", `{"space_id":"default","capability":"something_else"}`, `"skills":[]`)

	caller := k.Caller(t, "caller")
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request("1", "skill.invoke", `{"skill_id":"temperature_converter_001","capability_id":"celsius_to_fahrenheit","params":{"celsius":25}}`))
	call := device.Invocation(t)
	if !bytes.Contains(call.Params, []byte(`"celsius":25`)) {
		t.Errorf("the device got %s", call.Params)
	}
	device.Reply(t, "converter", call, map[string]any{"fahrenheit": 77})
	if got := caller.Answer(t); got.Err != nil || !bytes.Contains(got.Result, []byte(`"fahrenheit":77`)) {
		t.Errorf("the caller got %+v", got)
	}

	k.does("agent.unregister", `{"agent_id":"converter"}`)
	k.refuses("agent.get", `{"agent_id":"converter"}`, "3001")
	k.does("skill.discover", `{"capability":"celsius_to_fahrenheit"}`, `"skills":[]`)
}

func talkAboutResources(t *testing.T) {
	k := begin(t)
	for _, r := range []string{`"device_001","name":"Lamp","type":"device"`, `"room_001","name":"Hall","type":"room"`} {
		k.does("resource.register", `{"resource":{"resource_id":`+r+`}}`)
	}
	if answer := k.does("resource.list", `{"space_id":"default","type":"device"}`, `"device_001"`); bytes.Contains(answer, []byte("room_001")) {
		t.Errorf("got resources of another type: %s", answer)
	}
	k.does("resource.get", `{"resource_id":"device_001"}`, `"name":"Lamp"`)
	k.refuses("resource.get", `{"resource_id":"device_002"}`, "3001")
}

// limits registers something at the edges of every field: what the document
// allows is taken, one more is not.
func (k talk) limits(command string, whole map[string]string, params func(fields string) string, taken, refused map[string][]string) {
	k.Helper()
	with := func(field, value string) string {
		var pairs []string
		for name, v := range whole {
			if name != field {
				pairs = append(pairs, fmt.Sprintf("%q:%s", name, v))
			}
		}
		return params(strings.Join(append(pairs, fmt.Sprintf("%q:%s", field, value)), ","))
	}
	for field, values := range taken {
		for _, value := range values {
			k.does(command, with(field, value))
		}
	}
	for field, values := range refused {
		for _, value := range values {
			k.refuses(command, with(field, value), "1001")
		}
	}
}

// items is a JSON list of so many items.
func items(n int, item string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(item, i)
	}
	return "[" + strings.Join(all, ",") + "]"
}

func talkAboutTheModelOfASkill(t *testing.T) {
	k := begin(t)
	k.does("agent.register", `{"agent_id":"a","type":"end_agent"}`)
	url := `"http://192.168.1.%d:9010"`
	k.limits("skill.register", map[string]string{"skill_id": `"smart_home_controller_001"`, "name": `"Controller"`, "capabilities": `["temperature_sensor","device_control"]`},
		func(fields string) string { return `{"agent_id":"a","skill":{` + fields + `}}` },
		map[string][]string{
			"skill_id": {`"b"`, word(64)}, "name": {`"b"`, word(128)}, "description": {`"b"`, word(512)}, "version": {`"1.0.0"`, `"12.3.45"`},
			"type": {`"system"`, `"custom"`}, "endpoints": {items(1, url), items(10, url)}, "capabilities": {items(1, `"c%d"`), items(100, `"c%d"`)},
		},
		map[string][]string{
			"skill_id": {`""`, word(65)}, "name": {`""`, word(129)}, "description": {word(513)}, "version": {`"1"`, `"1.0"`, `"a.b.c"`},
			"type": {`"other"`}, "endpoints": {"[]", items(11, url), `["no address"]`}, "capabilities": {"[]", items(101, `"c%d"`)},
		})
	k.does("skill.register", `{"agent_id":"a","skill":{"skill_id":"smart_home_controller_001","name":"Controller","capabilities":["temperature_sensor","device_control"]}}`) // whatever was registered last
	k.does("skill.discover", `{"capability":"device_control"}`, `"skill_id":"smart_home_controller_001"`, `"type":"`, `"version":"`, `"endpoints":[`, `"capabilities":[`)
}

func talkAboutTheModelOfACap(t *testing.T) {
	k := begin(t)
	k.limits("cap.declare", map[string]string{"cap_id": `"device_control_cap_001"`, "cap_name": `"Control"`, "cap_desc": `"Controls devices"`, "skill_id": `"smart_home_controller_001"`},
		func(fields string) string { return "{" + fields + "}" },
		map[string][]string{
			"cap_id": {`"c"`, word(64)}, "cap_name": {`"b"`, word(128)}, "cap_desc": {`"b"`, word(512)},
			"cap_type": {`"b"`, word(32)}, "supported_scenes": {items(1, `"S%d"`), items(10, `"S%d"`)},
		},
		map[string][]string{
			"cap_id": {`""`, word(65)}, "cap_name": {`""`, word(129)}, "cap_desc": {word(513)}, "skill_id": {`""`, word(65)},
			"cap_type": {`""`, word(33)}, "supported_scenes": {"[]", items(11, `"S%d"`)},
		})
	k.does("cap.declare", `{"cap_id":"of-b","cap_name":"Control","skill_id":"b"}`)
	k.does("cap.declare", `{"cap_id":"of-a","cap_name":"Control","skill_id":`+word(64)+`}`)
	k.does("cap.query", `{"cap_id":"c"}`, `"cap_id":"c"`, `"name":"Control"`, `"description":"Controls devices"`, `"skill_id":"smart_home_controller_001"`, `"type":"generic"`, `"status":"active"`)
	k.does("cap.update", `{"cap_id":"c","cap_info":{"status":"inactive"}}`)
	k.does("cap.query", `{"cap_id":"c"}`, `"status":"inactive"`)
	k.refuses("cap.update", `{"cap_id":"c","cap_info":{"status":"asleep"}}`, "1001")
}

func talkAboutCaps(t *testing.T) {
	k := begin(t)
	k.does("cap.declare", `{"cap_id":"c","cap_name":"Control","cap_desc":"Controls devices","skill_id":"s","cap_type":"device_control","supported_scenes":["SMART_HOME"],`+
		`"max_members":100,"data_storage_type":"json","link_type":"bidirectional","disk_path":"/var/cap_data/d","group_file_path":"/var/cap_data/group.json",`+
		`"links_file_path":"/var/cap_data/links.json","sync_enabled":true,"sync_interval":60}`, `"cap_id":"c"`)
	k.does("cap.query", `{"skill_id":"s","cap_id":"c"}`, `"cap_desc":"Controls devices"`, `"max_members":100`, `"sync_interval":60`)
	k.does("cap.update", `{"cap_id":"c","cap_info":{"cap_name":"Control, updated","sync_interval":30}}`)
	k.does("cap.query", `{"cap_id":"c"}`, `"cap_name":"Control, updated"`, `"sync_interval":30`, `"cap_desc":"Controls devices"`)
	k.does("cap.remove", `{"cap_id":"c"}`)
	k.does("cap.query", `{"cap_id":"c"}`, `"caps":[]`)
}

func talkAboutGroups(t *testing.T) {
	k := begin(t)
	k.does("cap.declare", `{"cap_id":"c","cap_name":"Channel","skill_id":"s"}`)
	for _, member := range []string{"temperature_sensor_001", "air_conditioner_001"} {
		k.does("group.member.add", `{"group_id":"g","skill_id":"`+member+`","role":"sensor","cap_id":"c"}`, `"role":"sensor"`)
	}
	k.does("group.link.add", `{"group_id":"g","source_skill_id":"temperature_sensor_001","target_skill_id":"air_conditioner_001","link_type":"data_flow","cap_id":"c"}`)
	k.does("group.data.set", `{"group_id":"g","data_key":"temperature","data_value":25,"data_type":"number","cap_id":"c"}`)
	k.does("group.data.get", `{"group_id":"g","data_key":"temperature","cap_id":"c"}`, `"data_value":25`, `"data_type":"number"`)
	k.does("group.query", `{"group_id":"g","cap_id":"c"}`, `"temperature_sensor_001"`, `"link_type":"data_flow"`)
	k.does("group.link.remove", `{"group_id":"g","source_skill_id":"temperature_sensor_001","target_skill_id":"air_conditioner_001","cap_id":"c"}`)
	k.does("group.query", `{"group_id":"g","cap_id":"c"}`, `"links":[]`)
	k.does("group.member.remove", `{"group_id":"g","skill_id":"air_conditioner_001","cap_id":"c"}`)
	if answer := k.does("group.query", `{"group_id":"g","cap_id":"c"}`); bytes.Contains(answer, []byte("air_conditioner_001")) {
		t.Errorf("the member is still there: %s", answer)
	}
}

// talkAboutScenes has a RouteAgent with a certificate lead a scene.
func talkAboutScenes(t *testing.T) {
	k := begin(t)
	route := k.DialAs(t, k.Dial(t), "router", "SMART_HOME")
	must := func(command, params string) {
		t.Helper()
		if _, err := client.Call[map[string]any](t.Context(), route, command, json.RawMessage(params)); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
	must("agent.register", `{"agent_id":"router","type":"route_agent","skills":[{"skill_id":"router","name":"Router","capabilities":["route"]}]}`)
	must("cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"router"}`)
	declaration := `{"scene_type":"SMART_HOME","skill_id":"router","skill_role":"agent_route","is_owner_declaration":true,"cap_id":"home"}`
	k.refuses("scene.declare", declaration, "2004") // without the certificate
	must("scene.declare", declaration)
	k.does("scene.query", `{"scene_type":"SMART_HOME"}`, `"owner":"router"`, `"cap_id":"home"`)
	must("scene.declare.cancel", `{"scene_type":"SMART_HOME","skill_id":"router","cap_id":"home"}`)
	k.does("scene.query", `{"scene_type":"SMART_HOME"}`, `"scenes":[]`)
}
