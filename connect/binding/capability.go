package binding

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/connect/template"
	"github.com/aibridge/aibridge/protocol"
)

// nameRule is the form of names of params and parts of a state, so that templates
// can name them.
var nameRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

func (r *reader) capabilities(v value) (list []device.Capability) {
	if !v.is(yaml.MappingNode) || len(v.node.Content)/2 > maxCapabilities {
		r.fail(v, "must be an object of at most %d capabilities", maxCapabilities)
		return nil
	}
	for id, inner := range r.pairs(v) {
		r.rule(inner, protocol.CapabilityID("").Rule(), id)
		list = append(list, r.capability(id, inner))
	}
	return list
}

func (r *reader) capability(id string, v value) device.Capability {
	c := device.Capability{ID: protocol.CapabilityID(id)}
	effect := "act"
	params := map[string]bool{}
	schema := map[string]any{"type": "object", "additionalProperties": false}
	if inner, ok := lookup(v, "params"); ok { // the templates of other parameters name it
		schema["properties"], schema["required"] = r.params(inner, params)
		if schema["required"] == nil {
			delete(schema, "required")
		}
	}
	r.object(v,
		key{"publish", func(v value) { c.Publish = r.publications(v, params) }},
		key{"params", func(value) {}},
		key{"answer", func(v value) { c.Answer = r.answer(v, params) }},
		key{"description", r.text(&c.Description, 512)},
		key{"effect", r.oneOf(&effect, "act", "read")},
		key{"idempotent", r.flag(&c.Idempotent)},
		key{"risk", r.oneOf(&c.Risk, "low", "medium", "high", "ask", "deny")},
	)
	c.Reads = effect == "read"
	if len(c.Publish) == 0 {
		r.fail(v, "publish is needed")
	}
	if c.Reads && c.Answer == nil {
		r.fail(v, "a capability that reads needs an answer")
	}
	text, err := json.Marshal(schema)
	if err != nil {
		r.fail(v, "the params cannot be JSON")
	}
	c.Params = text
	return c
}

// lookup is the value of a key of an object.
func lookup(v value, name string) (value, bool) {
	if v.is(yaml.MappingNode) {
		for i := 0; i+1 < len(v.node.Content); i += 2 {
			if v.node.Content[i].Value == name {
				return value{v.node.Content[i+1], v.field + "." + name}, true
			}
		}
	}
	return value{}, false
}

// params takes the parameters of a capability, and makes JSON Schema of them.
func (r *reader) params(v value, names map[string]bool) (properties map[string]any, required []string) {
	properties = map[string]any{}
	if !v.is(yaml.MappingNode) || len(v.node.Content)/2 > maxParams {
		r.fail(v, "must be an object of at most %d parameters", maxParams)
		return properties, nil
	}
	for name, inner := range r.pairs(v) {
		if !nameRule.MatchString(name) {
			r.fail(inner, "the name must be of letters, digits and _")
			continue
		}
		names[name] = true
		property, needed := r.param(inner)
		properties[name] = property
		if needed {
			required = append(required, name)
		}
	}
	return properties, required
}

// maxText bounds the text of a parameter without a length of its own.
const maxText = 1024

func (r *reader) param(v value) (property map[string]any, required bool) {
	property = map[string]any{}
	var kind, unit, description, pattern string
	limit := func(keyword string) func(value) {
		return func(v value) {
			switch n := r.scalar(v).(type) {
			case int64, float64:
				property[keyword] = n
			default:
				r.fail(v, "must be a number")
			}
		}
	}
	r.object(v,
		key{"type", r.oneOf(&kind, "boolean", "integer", "number", "string")},
		key{"required", r.flag(&required)},
		key{"description", r.text(&description, 256)},
		key{"unit", r.text(&unit, 32)},
		key{"minimum", limit("minimum")},
		key{"maximum", limit("maximum")},
		key{"max_length", limit("maxLength")},
		key{"pattern", func(v value) {
			r.text(&pattern, 256)(v)
			if _, err := regexp.Compile(pattern); err != nil {
				r.fail(v, "is no regular expression")
			}
			property["pattern"] = pattern
		}},
		key{"enum", func(v value) {
			var words []any
			r.list(v, 100, func(v value) { words = append(words, r.scalar(v)) })
			property["enum"] = words
		}},
	)
	switch {
	case kind == "":
		r.fail(v, "type is needed")
	case kind == "string" && property["maxLength"] == nil:
		property["maxLength"] = maxText
	}
	property["type"] = kind
	if text := described(description, unit); text != "" {
		property["description"] = text
	}
	return property, required
}

func (r *reader) publications(v value, params map[string]bool) (list []device.Publication) {
	if v.is(yaml.SequenceNode) {
		r.list(v, maxPublications, func(v value) { list = append(list, r.publication(v, params)) })
		return list
	}
	return []device.Publication{r.publication(v, params)}
}

func (r *reader) publication(v value, params map[string]bool) device.Publication {
	p := device.Publication{QoS: 1}
	given := func(name string) bool { return params[name] }
	topic, payloads, qos := false, 0, ""
	r.object(v,
		key{"topic", func(v value) {
			topic = true
			var text string
			r.text(&text, 1024)(v)
			t, err := device.ParseTopic(text, r.root)
			if err != nil {
				r.fail(v, "%v", err)
				return
			}
			r.variables(v, t.Template(), given)
			p.Topic = t
		}},
		key{"payload", func(v value) {
			payloads++
			var t *template.Template
			r.template(&t, given)(v)
			if t == nil {
				return
			}
			if looksLikeJSON(t.Source()) && !t.Constant() {
				r.fail(v, "JSON goes below the key json, where values are encoded")
			}
			p.Payload = device.TextPayload(t)
		}},
		key{"json", func(v value) {
			payloads++
			p.Payload = device.JSONPayload(r.plain(v, 0, func(v value) any {
				var t *template.Template
				r.template(&t, given)(v)
				return t
			}))
		}},
		key{"when", r.template(&p.When, given)},
		key{"qos", r.oneOf(&qos, "0", "1", "2")},
		key{"retain", r.flag(&p.Retain)},
	)
	if !topic {
		r.fail(v, "topic is needed")
	}
	if payloads != 1 {
		r.fail(v, "payload or json is needed, and not both")
	}
	if qos != "" {
		p.QoS = qos[0] - '0'
	}
	return p
}

// looksLikeJSON reports whether a payload begins as an object or a list of JSON.
func looksLikeJSON(text string) bool {
	text = strings.TrimSpace(text)
	for _, open := range []string{"{{", "{%", "{#"} {
		if strings.HasPrefix(text, open) {
			return false
		}
	}
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}

func (r *reader) answer(v value, params map[string]bool) *device.Answer {
	a := new(device.Answer)
	var read device.Extraction
	var topic string
	reads := false
	r.object(v, append(r.extraction(&read, &reads),
		key{"topic", r.topicName(&topic)},
		key{"timeout", r.duration(&a.Timeout, 10*time.Minute)},
		key{"optional", r.flag(&a.Optional)},
		key{"match", r.template(&a.Match, func(name string) bool { return params[name] || ofMessage(name) })},
	)...)
	if topic == "" {
		r.fail(v, "topic is needed")
	}
	a.Topics = []string{topic}
	if reads {
		a.Read = &read
	}
	if a.Optional && reads {
		r.fail(v, "optional goes with an answer that is the state, without path, value, regexp, map and type")
	}
	return a
}

// ofMessage reports whether a name is that of a variable about a message.
func ofMessage(name string) bool { return name == "value" || name == "value_json" }

// extraction are the keys by which a value is read from a message. some is set
// when there is one.
func (r *reader) extraction(e *device.Extraction, some *bool) []key {
	var used string
	source := func(name string, take func(value)) key {
		return key{name, func(v value) {
			if *some = true; used != "" {
				r.fail(v, "%s is there already: one of them says where the value is", used)
			}
			used = name
			take(v)
		}}
	}
	return []key{
		source("path", func(v value) {
			var text string
			r.text(&text, 512)(v)
			t, err := Path(text)
			if err != nil {
				r.fail(v, "%v", err)
			}
			e.Template = t
		}),
		source("value", r.template(&e.Template, ofMessage)),
		{"regexp", func(v value) {
			*some = true
			var text string
			r.text(&text, 512)(v)
			pattern, err := regexp.Compile(text)
			if err != nil {
				r.fail(v, "is no regular expression")
			}
			e.Pattern = pattern
		}},
		{"map", func(v value) {
			*some = true
			if !v.is(yaml.MappingNode) || len(v.node.Content)/2 > 256 {
				r.fail(v, "must be an object of at most 256 values")
				return
			}
			e.Map = map[string]any{}
			for name, inner := range r.pairs(v) {
				e.Map[name] = r.scalar(inner)
			}
		}},
		{"type", func(v value) {
			*some = true
			r.oneOf(&e.Type, "boolean", "integer", "number", "string")(v)
		}},
	}
}
