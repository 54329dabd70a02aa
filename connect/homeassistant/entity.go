package homeassistant

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/connect/template"
	"github.com/aibridge/aibridge/protocol"
)

// An entity is one thing that is announced, while it is read. The first thing
// that is wrong with it stays in err.
type entity struct {
	*reader
	component string
	fields    map[string]any
	about     about

	made   device.Skill
	err    error
	topics map[string]bool // that the state is read from
}

// answerIn is the time that a device has to say its new state. Without it the fleet
// answers, as the published command may have been carried out.
const answerIn = 5 * time.Second

// skill makes a skill of the entity.
func (e *entity) skill(id protocol.SkillID) (*device.Skill, error) {
	build, ok := components[e.component]
	if !ok {
		return nil, fmt.Errorf("the component %.32q is not understood", e.component)
	}
	if v, there := e.fields["encoding"]; there && v != "utf-8" {
		return nil, errors.New("encoding: only utf-8 is understood")
	}
	name := line(text(e.fields["name"]), "")
	switch {
	case name == "":
		name = line(e.about.name, string(id))
	case e.about.name != "" && !strings.HasPrefix(name, line(e.about.name, "")):
		name = line(e.about.name+" "+name, name)
	}
	e.made = device.Skill{ID: id, Name: name}
	e.topics = map[string]bool{}
	e.made.Description = line(strings.TrimSpace("A "+strings.ReplaceAll(e.component, "_", " ")+" that was announced for Home Assistant. "+e.about.model), "")
	build(e)
	if e.err == nil && len(e.made.State)+len(e.made.Capabilities) == 0 {
		e.fail("it neither takes commands nor tells a state")
	}
	return &e.made, e.err
}

// components are the sorts of entities that are understood.
var components map[string]func(*entity)

func init() {
	components = map[string]func(*entity){
		"switch": (*entity).asSwitch, "light": (*entity).asLight, "cover": (*entity).asCover, "valve": (*entity).asCover,
		"lock": (*entity).asLock, "number": (*entity).asNumber, "select": (*entity).asSelect, "button": (*entity).asButton,
		"climate": (*entity).asClimate, "sensor": (*entity).asSensor, "binary_sensor": (*entity).asBinarySensor,
	}
}

func (e *entity) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// word is the text of a field, or otherwise if it is absent or too long. Numbers
// and truth values become texts as in Home Assistant.
func (e *entity) word(name, otherwise string) string {
	v, ok := e.fields[name]
	if !ok || v == nil {
		return otherwise
	}
	s := asText(v)
	if len(s) > maxText {
		e.fail("%s: has more than %d bytes", name, maxText)
		return otherwise
	}
	return s
}

func asText(v any) string {
	if b, ok := v.(bool); ok {
		return map[bool]string{true: "True", false: "False"}[b]
	}
	return template.Text(v)
}

func (e *entity) flag(name string) bool { return e.fields[name] == true || e.fields[name] == "true" }

func (e *entity) number(name string, otherwise float64) float64 {
	switch v := e.fields[name].(type) {
	case nil:
	case int64:
		return float64(v)
	case float64:
		return v
	case string:
		f, err := strconv.ParseFloat(v, 64)
		if err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
		e.fail("%s: is no number", name)
	default:
		e.fail("%s: is no number", name)
	}
	return otherwise
}

// topic is the topic of a field, "" without one.
func (e *entity) topic(name string) string {
	v, ok := e.fields[name]
	if !ok || v == nil {
		return ""
	}
	topic, ok := v.(string)
	if !ok {
		e.fail("%s: is no topic", name)
		return ""
	}
	if err := e.checkTopic(topic); err != nil {
		e.fail("%s: %v", name, err)
	}
	return topic
}

// readable is [entity.topic] for a topic that the announcer must have the right to read.
func (e *entity) readable(name string) string {
	topic := e.topic(name)
	if topic != "" && e.mayRead != nil {
		e.permitted(name, e.mayRead(topic))
	}
	return topic
}

// writable is [entity.topic] for a topic that the announcer must have the right to
// publish to.
func (e *entity) writable(name string) string {
	topic := e.topic(name)
	if topic != "" && e.mayWrite != nil {
		e.permitted(name, e.mayWrite(topic, e.flag("retain")))
	}
	return topic
}

// permitted fails the announcement if its announcer may not use the topic of a field.
func (e *entity) permitted(name string, err error) {
	if err != nil {
		e.fail("%s: who announces it may not use the topic: %s", name, protocol.AsError(err).Message)
	}
}

// checkTopic fails for a topic that an announcement may not name.
func (r *reader) checkTopic(topic string) error {
	if err := device.CheckTopic(topic, r.root); err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(topic, r.prefix+"/"); ok && (rest == "status" || strings.HasSuffix(rest, "/config")) {
		return errors.New("announcements are made there")
	}
	if !r.allows(topic) {
		return errors.New("it is none of connect.homeassistant.topics")
	}
	return nil
}

// template is the template of a field, nil without one.
func (e *entity) template(name string) *template.Template {
	source, ok := e.fields[name]
	if !ok || source == nil {
		return nil
	}
	s, ok := source.(string)
	if !ok {
		e.fail("%s: is no template", name)
		return nil
	}
	t, err := template.Parse(s)
	if err != nil {
		e.fail("%s: %v", name, err)
	}
	return t
}

// reads is a template about a message: it may use no other variables.
func (e *entity) reads(name string) *template.Template {
	return e.using(name, "value", "value_json")
}

// using is the template of a field that uses no variables but these.
func (e *entity) using(name string, variables ...string) *template.Template {
	t := e.template(name)
	if t == nil {
		return nil
	}
	for _, v := range t.Variables() {
		if !slices.Contains(variables, v) {
			e.fail("%s: the variable %s is not understood", name, v)
		}
	}
	return t
}

// state adds a part of the state, if the topic is there.
func (e *entity) state(name, topic, reads string, as device.Extraction, schema map[string]any) {
	at := e.readable(topic)
	if at == "" {
		return
	}
	if as.Template == nil {
		as.Template = e.reads(reads)
	}
	e.topics[at] = true
	if schema == nil {
		schema = map[string]any{}
	}
	if as.Type != "" {
		schema["type"] = as.Type
	}
	e.made.State = append(e.made.State, device.Reading{Name: name, Topic: at, Read: as, Schema: schema})
}

// publication is the message for the topic of a field: the payload, or
// the template of a field over the variables if that is there. With QoS 1 or 2 the
// broker tells whether there are subscribers, which get no higher QoS than they
// subscribed with.
func (e *entity) publication(topic, command string, payload *template.Template, variables ...string) device.Publication {
	at := e.writable(topic)
	if at == "" {
		e.fail("%s: is missing", topic)
		return device.Publication{}
	}
	t, err := device.ParseTopic(at, e.root)
	if err != nil || !t.Template().Constant() {
		e.fail("%s: is no topic", topic)
	}
	if command != "" {
		if own := e.using(command, append(variables, "value")...); own != nil {
			payload = own
		}
	}
	qos := e.number("qos", 0)
	if qos != 0 && qos != 1 && qos != 2 {
		e.fail("qos: is none of 0, 1, 2")
	}
	return device.Publication{Topic: t, Payload: device.TextPayload(payload), QoS: max(1, byte(qos)), Retain: e.flag("retain")}
}

// constant is a payload that is a text as it stands.
func constant(s string) *template.Template { return template.Must("{{ " + quoted(s) + " }}") }

// quoted is a text as a string of a template.
func quoted(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// params are JSON Schema of a capability's params.
func params(properties map[string]any, required ...string) json.RawMessage {
	object := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		object["required"] = required
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // of maps of texts and numbers
	}
	return text
}

// capability adds something that the entity can do. The device's new state, if
// it tells one, is the answer.
func (e *entity) capability(c device.Capability) {
	if c.Risk == "" {
		c.Risk = usualRisk
	}
	if c.Params == nil {
		c.Params = params(map[string]any{})
	}
	if len(e.topics) > 0 {
		c.Answer = &device.Answer{Topics: slices.Sorted(maps.Keys(e.topics)), Timeout: answerIn, Optional: true}
	}
	e.made.Capabilities = append(e.made.Capabilities, c)
}

// options are the words of a list.
func (e *entity) options(name string) []any {
	list, ok := e.fields[name].([]any)
	if !ok || len(list) == 0 || len(list) > maxList {
		e.fail("%s: is no list of 1 to %d", name, maxList)
		return nil
	}
	var words []any
	for _, v := range list {
		s, ok := v.(string)
		if !ok || len(s) > maxText || slices.Contains(words, v) {
			e.fail("%s: is no list of different texts", name)
			return nil
		}
		words = append(words, s)
	}
	return words
}

// onOff is a reading of two words.
func (e *entity) onOff(on, off string) device.Extraction {
	m := map[string]any{off: false, on: true}
	for word, v := range map[string]bool{on: true, off: false} {
		if word == "True" || word == "False" { // of JSON's, which a template may yield
			m[strings.ToLower(word)] = v
		}
	}
	return device.Extraction{Map: m, Type: "boolean"}
}

// presence is the time when the device of the entity is there.
func (e *entity) presence() (p device.Presence, err error) {
	p.Mode = device.Latest
	switch mode := e.word("availability_mode", "latest"); mode {
	case "all", "any", "latest":
		p.Mode = device.Mode(mode)
	default:
		e.fail("availability_mode: %.32q is none of all, any, latest", mode)
	}
	list, _ := e.fields["availability"].([]any)
	if one, ok := e.fields["availability"].(map[string]any); ok {
		list = []any{one}
	}
	if e.fields["availability_topic"] != nil {
		if list != nil {
			e.fail("availability and availability_topic are there both")
		}
		list = []any{map[string]any{
			"topic": e.fields["availability_topic"], "value_template": e.fields["availability_template"],
			"payload_available": e.fields["payload_available"], "payload_not_available": e.fields["payload_not_available"],
		}}
	}
	if len(list) > maxList {
		e.fail("availability: more than %d topics", maxList)
	}
	for _, item := range list {
		p.Topics = append(p.Topics, e.availability(item))
		if e.err != nil {
			return p, e.err
		}
	}
	if seconds := e.number("expire_after", 0); seconds > 0 && seconds <= 1e7 && (e.component == "sensor" || e.component == "binary_sensor") {
		p.Fresh = time.Duration(math.Ceil(seconds)) * time.Second
	}
	return p, e.err
}

func (e *entity) availability(item any) device.Availability {
	fields, ok := item.(map[string]any)
	if !ok {
		e.fail("availability: is no object")
		return device.Availability{}
	}
	for short, long := range map[string]string{"t": "topic", "val_tpl": "value_template", "pl_avail": "payload_available", "pl_not_avail": "payload_not_available"} {
		if v, there := fields[short]; there && v != nil && fields[long] == nil {
			fields[long] = v
		}
	}
	a := &entity{reader: e.reader, fields: fields}
	made := device.Availability{
		Topic: a.readable("topic"), Read: device.Extraction{Template: a.reads("value_template")},
		Online: a.word("payload_available", "online"), Offline: a.word("payload_not_available", "offline"),
	}
	if made.Topic == "" {
		a.fail("topic: is missing")
	}
	if a.err != nil {
		e.fail("availability: %w", a.err)
	}
	return made
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
