package bridge

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

const inputDescription = `
One of the fields ` + "`topics`, `events` and `audit`" + ` says what is taken.

A message is acknowledged when the pipeline has delivered it. Until then the bridge keeps it, and brings it again after a lost connection or a killed pipeline: each message comes at least once. No more messages come than ` + "`batch` and `max_in_flight`" + ` let be under way.

### Metadata of topics and events

` + "```text" + `
- aibridge_topic
- aibridge_qos             0 or 1
- aibridge_retained        true if it was kept for new subscribers
- aibridge_content_type    if there is one
- aibridge_properties      an object: for each user property, a list of its values
- aibridge_property_NAME   the first value of the user property NAME
` + "```" + `

### Metadata of the audit trail

` + "```text" + `
- aibridge_event           of the entry, such as skill.invoke
- aibridge_code            ok, or an error code
` + "```" + `
`

func inputSpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Categories("Services").
		Summary("Takes messages of topics, events or the audit trail from an AI Bridge, each at least once.").
		Description(inputDescription).
		Fields(connectionFields()...).
		Fields(
			service.NewStringListField("topics").Optional().
				Description("Topic filters of MQTT, also shared ones: several pipelines that take `$share/NAME/plant/#` share the messages.").
				Example([]string{"plant/+/temperature"}),
			service.NewStringListField("events").Optional().
				Description("Families of the bridge's events, or `+` for all that may be seen.").
				Example([]string{"agent", "security"}),
			service.NewObjectField("audit",
				service.NewStringField("cache").
					Description("A cache resource that keeps the place in the trail, such as one of the type `file`. With one of the type `memory` the pipeline begins anew at each start."),
				service.NewStringField("key").Description("Name of the place in the cache.").Default("aibridge_audit"),
				service.NewStringEnumField("from", "now", "start").
					Description("Where to begin if the cache has no place: with what is recorded from now on, or, at a bridge without a cluster, with all there is.").Default("now"),
				service.NewStringField("event").Description("Only entries of this command or event; `skill.*` takes all that begin so.").Default(""),
				service.NewBoolField("security").Description("Only entries that operators are told of.").Default(false),
				service.NewDurationField("interval").Description("Time between two questions for new entries.").Default("2s"),
			).Optional().Description("Entries of the audit trail, the oldest first. The key needs the permission `audit:query`."),
			service.NewStringField("session").
				Description("Client id under which the bridge keeps what comes while the pipeline is away. A session keeps its filters: with other ones take another session. Two pipelines with one session throw each other out. Without it nothing is kept for a pipeline that is away.").
				Example("warehouse").Default(""),
			service.NewDurationField("keep").Advanced().
				Description("How long the bridge keeps the session of a pipeline that is away, as far as its own limit allows.").Default("168h"),
			service.NewIntField("qos").Advanced().
				Description("1: at least once. 0: at most once, and messages are dropped that come faster than they are delivered.").Default(1).
				LintRule(`root = if this != 0 && this != 1 { ["must be 0 or 1"] }`),
			service.NewIntField("batch").Description("Messages at most in a batch.").Default(100).
				LintRule(`root = if this < 1 || this > 10000 { ["must be 1 to 10000"] }`),
			service.NewDurationField("linger").Advanced().
				Description("A batch is passed on so long after its first message at the latest.").Default("100ms"),
			service.NewIntField("max_in_flight").
				Description("Batches that are under way at a time. With more than one, batches may overtake each other.").Default(1).
				LintRule(`root = if this < 1 || this > 1000 { ["must be 1 to 1000"] }`),
			service.NewAutoRetryNacksToggleField().
				Description("Whether messages that cannot be delivered are tried again one by one, for ever. Otherwise the whole batch is tried again. Catch what can never be delivered with an output `fallback`."),
		).
		LintRule(`root = if [this.topics.or([]).length() > 0, this.events.or([]).length() > 0, this.exists("audit")].filter(given -> given).length() != 1 { [ "` + oneSource + `" ] }`)
}

const oneSource = "one of topics, events and audit is needed, and no more than one"

func init() {
	if err := service.RegisterBatchInput("aibridge", inputSpec(), newInput); err != nil {
		panic(err)
	}
}

func newInput(conf *service.ParsedConfig, mgr *service.Resources) (service.BatchInput, error) {
	topics, err := conf.FieldStringList("topics")
	if err != nil {
		return nil, err
	}
	events, err := conf.FieldStringList("events")
	if err != nil {
		return nil, err
	}
	audit := conf.Contains("audit")
	given := 0
	for _, is := range []bool{len(topics) > 0, len(events) > 0, audit} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, errors.New(oneSource)
	}
	at, err := newAddress(conf, mgr)
	if err != nil {
		return nil, err
	}
	var input service.BatchInput
	if audit {
		input, err = newTrail(conf.Namespace("audit"), at, mgr, conf)
	} else {
		input, err = newTopics(conf, at, topics, events)
	}
	if err != nil {
		return nil, err
	}
	return service.AutoRetryNacksBatchedToggled(conf, input)
}

// newTopics is the input of messages of topics, or of families of events, which
// become topics once the bridge has told the first level of its topics.
func newTopics(conf *service.ParsedConfig, at address, filters, families []string) (*topics, error) {
	for i, filter := range filters {
		if reason := protocol.CheckFilter(filter); reason != "" {
			return nil, fmt.Errorf("topics[%d]: %s", i, reason)
		}
	}
	for i, family := range families {
		if family == "" || strings.ContainsAny(family, "/#") {
			return nil, fmt.Errorf("events[%d]: must be the name of a family, or +, is %q", i, family)
		}
	}
	in := &topics{at: at, families: families, consumer: client.Consumer{Filters: filters}, batches: make(chan handed)}
	return in, in.limit(conf)
}

// limit reads the fields that bound the messages under way.
func (in *topics) limit(conf *service.ParsedConfig) (err error) {
	w := &in.consumer
	if w.Session, err = conf.FieldString("session"); err != nil {
		return err
	}
	if w.Keep, err = conf.FieldDuration("keep"); err != nil {
		return err
	}
	if w.Session == "" {
		w.Session, w.Keep = "connect-"+strings.ToLower(rand.Text()), time.Second
	}
	if reason := protocol.ClientID("").Rule().Check(w.Session); reason != "" {
		return fmt.Errorf("session: %s", reason)
	}
	if w.Batch, err = conf.FieldInt("batch"); err != nil {
		return err
	}
	if w.Linger, err = conf.FieldDuration("linger"); err != nil {
		return err
	}
	if w.InFlight, err = conf.FieldInt("max_in_flight"); err != nil {
		return err
	}
	qos, err := conf.FieldInt("qos")
	w.AtMostOnce = qos == 0
	return err
}

// messageOf is a message of the bridge as one of the pipeline. The publisher chooses
// user properties, so they have a beginning of their own among the metadata.
func messageOf(m *client.Message) *service.Message {
	out := service.NewMessage(m.Payload)
	properties := make(map[string]any, len(m.UserProperties))
	for _, p := range m.UserProperties {
		list, seen := properties[p.Key].([]any)
		if !seen {
			out.MetaSetMut("aibridge_property_"+p.Key, p.Value)
		}
		properties[p.Key] = append(list, p.Value)
	}
	out.MetaSetMut("aibridge_properties", properties)
	out.MetaSetMut("aibridge_topic", m.Topic)
	out.MetaSetMut("aibridge_qos", int64(m.QoS))
	out.MetaSetMut("aibridge_retained", m.Retain)
	if m.ContentType != "" {
		out.MetaSetMut("aibridge_content_type", m.ContentType)
	}
	return out
}
