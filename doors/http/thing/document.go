// Package thing describes skills as Things of the Web of Things: a skill's
// capabilities, and the topics of its agents' state, as a Thing Description of
// W3C's version 1.1 (https://www.w3.org/TR/wot-thing-description11/). A description
// is made of the declaration of the skill, and of nothing else.
package thing

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// MediaType is that of a Thing Description.
const MediaType = "application/td+json"

// A Capability is one of the skill's. Each becomes an action.
type Capability struct {
	ID          protocol.CapabilityID
	Title       string
	Description string
	Reads       bool            // it changes nothing
	Idempotent  bool            // to do it twice is to do it once
	Params      json.RawMessage // JSON Schema, empty for any
	Result      json.RawMessage // the same
}

// A Thing is a skill to be described.
type Thing struct {
	Bridge       string // id of the bridge
	Space        protocol.SpaceID
	Skill        protocol.SkillID
	Title        string
	Description  string
	Capabilities []Capability
	Agents       []protocol.AgentID // that provide the skill; the first [MaxAgents] are described

	Topics protocol.Topics
	HTTP   string // http://host:port of the bridge
	MQTT   string // mqtt://host:port or mqtts://host:port, empty to leave it out
	Open   bool   // no credential is needed
}

// MaxAgents bounds the agents of one description.
const MaxAgents = 32

type object = map[string]any

// Names of the ways to show a credential: over HTTP, and over MQTT.
const (
	bearer = "bearer"
	login  = "login"
	open   = "nosec"
)

// ID is the identifier of a skill as a Thing, a URN.
func (t *Thing) ID() string {
	parts := []string{t.Bridge, string(t.Space), string(t.Skill)}
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "urn:aibridge:" + strings.Join(parts, ":")
}

// Describe is the Thing Description. The same declarations give the same bytes.
func (t *Thing) Describe() ([]byte, error) {
	all := object{
		"@context": []any{
			"https://www.w3.org/2022/wot/td/v1.1",
			object{"htv": "http://www.w3.org/2011/http#", "mqv": "https://www.w3.org/2019/wot/mqtt#"},
		},
		"@type": "Thing", "id": t.ID(), "title": cmp.Or(t.Title, string(t.Skill)), "base": t.HTTP,
	}
	if t.Description != "" {
		all["description"] = t.Description
	}
	all["securityDefinitions"], all["security"] = t.security()
	actions := object{}
	for i := range t.Capabilities {
		c := &t.Capabilities[i]
		actions[string(c.ID)] = t.action(c)
	}
	if len(actions) > 0 {
		all["actions"] = actions
	}
	if t.MQTT != "" && len(t.Agents) > 0 {
		all["properties"] = t.properties()
	}
	return json.Marshal(all)
}

// security are the ways to show a credential, and the one of most forms.
func (t *Thing) security() (definitions object, usual []string) {
	if t.Open {
		return object{open: object{"scheme": "nosec"}}, []string{open}
	}
	definitions = object{bearer: object{"scheme": "bearer", "in": "header", "name": "Authorization", "format": "opaque", "description": "an API key, or a token"}}
	if t.MQTT != "" {
		definitions[login] = object{"scheme": "basic", "in": "auto", "description": "over MQTT: the user name apikey with an API key as the password, or jwt with a token"}
	}
	return definitions, []string{bearer}
}

// action describes a capability: the params of the command skill.invoke, which finds an
// agent that provides the skill.
func (t *Thing) action(c *Capability) object {
	input := object{
		"type": "object", "required": []string{"skill_id", "capability_id"},
		"properties": object{
			"skill_id": constant(string(t.Skill)), "capability_id": constant(string(c.ID)), "params": dataSchema(c.Params),
		},
	}
	a := object{
		"safe": c.Reads, "idempotent": c.Reads || c.Idempotent, "synchronous": true, "input": input,
		"output": object{"type": "object", "properties": object{"skill_id": constant(string(t.Skill)), "capability_id": constant(string(c.ID)), "data": dataSchema(c.Result)}},
		"forms": []any{object{
			"href": "/api/v1/commands/skill.invoke", "op": "invokeaction", "htv:methodName": "POST", "contentType": protocol.ContentJSON,
			"additionalResponses": []any{object{"success": false, "contentType": protocol.ContentJSON}},
		}},
	}
	for name, text := range map[string]string{"title": c.Title, "description": c.Description} {
		if text != "" {
			a[name] = text
		}
	}
	return a
}

func constant(text string) object { return object{"type": "string", "const": text} }

// properties are the cards and the state of the agents, which MQTT retains.
func (t *Thing) properties() object {
	all := object{}
	for _, agent := range t.Agents[:min(len(t.Agents), MaxAgents)] {
		name := string(agent)
		all[name+"/card"] = t.property(t.Topics.AgentCard(agent), "The card of the agent "+name+", with its status: online or offline; empty when the agent is gone.")
		all[name+"/reported"] = t.property(t.Topics.AgentState(agent, "reported"), "The state of the agent "+name+", by skill.")
		all[name+"/desired"] = t.property(t.Topics.AgentState(agent, "desired"), "The state that the agent "+name+" shall have, by skill.")
	}
	return all
}

func (t *Thing) property(topic, about string) object {
	return object{
		"type": "object", "description": about, "readOnly": true, "observable": true,
		"forms": []any{t.subscription([]string{"observeproperty", "unobserveproperty"}, topic, true)},
	}
}

// subscription is a form of W3C's MQTT binding
// (https://w3c.github.io/wot-binding-templates/bindings/protocols/mqtt/).
func (t *Thing) subscription(op []string, topic string, retained bool) object {
	form := object{
		"href": t.MQTT, "op": op, "contentType": protocol.ContentJSON,
		"mqv:filter": topic, "mqv:qos": "1", "mqv:retain": retained,
	}
	if !t.Open {
		form["security"] = []string{login}
	}
	return form
}

// Bounds of the schemas of skills.
const (
	maxSchema = 16 << 10 // bytes
	maxDepth  = 16
)

// dataSchema is a JSON Schema as far as the Thing Description's vocabulary has words
// for it; the bridge itself checks everything. A schema that is too large or not to
// be read is any.
func dataSchema(schema json.RawMessage) object {
	var value any
	if len(schema) == 0 || len(schema) > maxSchema || json.Unmarshal(schema, &value) != nil {
		return object{}
	}
	return translated(value, maxDepth)
}

// kept are the words that both vocabularies have, by the kind of their values.
var kept = map[string]func(any) bool{
	"title": isText, "description": isText, "format": isText, "pattern": isText, "contentEncoding": isText, "contentMediaType": isText, "unit": isText,
	"minimum": isNumber, "maximum": isNumber, "exclusiveMinimum": isNumber, "exclusiveMaximum": isNumber,
	"multipleOf": func(v any) bool { n, ok := v.(float64); return ok && n > 0 },
	"minLength":  isCount, "maxLength": isCount, "minItems": isCount, "maxItems": isCount,
	"readOnly": isBool, "writeOnly": isBool,
	"required": func(v any) bool { return isList(v, isText) },
	"enum":     func(v any) bool { return isList(v, func(any) bool { return true }) },
	"const":    func(any) bool { return true },
	"default":  func(any) bool { return true },
	"type": func(v any) bool {
		name, _ := v.(string)
		return strings.Contains(" boolean integer number string object array null ", " "+name+" ") && name != ""
	},
}

func isText(v any) bool   { _, ok := v.(string); return ok }
func isNumber(v any) bool { _, ok := v.(float64); return ok }
func isBool(v any) bool   { _, ok := v.(bool); return ok }
func isCount(v any) bool  { n, ok := v.(float64); return ok && n >= 0 && n == float64(int64(n)) }

func isList(v any, is func(any) bool) bool {
	list, ok := v.([]any)
	for _, one := range list {
		ok = ok && is(one)
	}
	return ok && len(list) > 0
}

// translated is a schema in the words of the Thing Description.
func translated(schema any, depth int) object {
	all := object{}
	from, ok := schema.(map[string]any)
	if !ok || depth == 0 {
		return all
	}
	for word, is := range kept {
		if value, there := from[word]; there && is(value) {
			all[word] = value
		}
	}
	if properties, ok := from["properties"].(map[string]any); ok {
		into := object{}
		for name, one := range properties {
			into[name] = translated(one, depth-1)
		}
		all["properties"] = into
	}
	if items, there := from["items"]; there {
		all["items"] = translated(items, depth-1)
	}
	if choices, _ := from["oneOf"].([]any); len(choices) > 0 {
		var into []any
		for _, one := range choices {
			into = append(into, translated(one, depth-1))
		}
		all["oneOf"] = into
	}
	return all
}

// Address is the URL of a listener of MQTT at a host and port.
func Address(hostPort string, secure bool) string {
	if hostPort == "" {
		return ""
	}
	scheme := "mqtt"
	if secure {
		scheme = "mqtts"
	}
	return fmt.Sprintf("%s://%s", scheme, hostPort)
}
