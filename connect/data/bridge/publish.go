package bridge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

func publishFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewInterpolatedStringField("topic").Example(`plant/${! this.hall }/target`),
		service.NewIntField("qos").Default(1).LintRule(`root = if this < 0 || this > 2 { ["must be 0, 1 or 2"] }`),
		service.NewInterpolatedStringField("retain").Description("`true` if the bridge shall keep the message for new subscribers.").Default("false"),
		service.NewInterpolatedStringField("content_type").Default(""),
		service.NewDurationField("expiry").Advanced().Description("How long the message may wait for subscribers. Without it, it waits as long as the bridge keeps it.").Optional(),
		service.NewInterpolatedStringMapField("properties").Description("User properties of MQTT 5.").Example(map[string]any{"source": "warehouse"}).Default(map[string]any{}),
		service.NewMetadataFilterField("metadata").Description("Metadata that become user properties, too, under the same names.").Optional(),
	}
}

// A publication makes messages of the bridge of the pipeline's.
type publication struct {
	topic, retain, contentType *service.InterpolatedString
	properties                 map[string]*service.InterpolatedString
	names                      []string // of properties, sorted
	metadata                   *service.MetadataFilter
	qos                        byte
	expiry                     time.Duration
}

func newPublication(conf *service.ParsedConfig) (*publication, error) {
	var p publication
	for name, field := range map[string]**service.InterpolatedString{"topic": &p.topic, "retain": &p.retain, "content_type": &p.contentType} {
		var err error
		if *field, err = conf.FieldInterpolatedString(name); err != nil {
			return nil, err
		}
	}
	qos, err := conf.FieldInt("qos")
	if err != nil {
		return nil, err
	}
	if qos < 0 || qos > 2 {
		return nil, fmt.Errorf("publish.qos: must be 0, 1 or 2, is %d", qos)
	}
	p.qos = byte(qos)
	if p.properties, err = conf.FieldInterpolatedStringMap("properties"); err != nil {
		return nil, err
	}
	for name := range p.properties {
		p.names = append(p.names, name)
	}
	slices.Sort(p.names)
	if conf.Contains("expiry") {
		if p.expiry, err = conf.FieldDuration("expiry"); err != nil {
			return nil, err
		}
	}
	if conf.Contains("metadata") {
		p.metadata, err = conf.FieldMetadataFilter("metadata")
	}
	return &p, err
}

// parts are the messages by topic: order is a matter of topics.
func (p *publication) parts(batch service.MessageBatch) (parts [][]int) {
	part := make(map[string]int)
	for i := range batch {
		topic, _ := batch.TryInterpolatedString(i, p.topic) // deliver reports the error
		n, known := part[topic]
		if !known {
			n = len(parts)
			part[topic], parts = n, append(parts, nil)
		}
		parts[n] = append(parts[n], i)
	}
	return parts
}

func (p *publication) deliver(ctx context.Context, l *line, batch service.MessageBatch, i int) error {
	m, err := p.message(batch, i)
	if err != nil {
		return err
	}
	c, err := l.client(ctx)
	if err != nil {
		return err
	}
	return c.Publish(ctx, m)
}

func (p *publication) message(batch service.MessageBatch, i int) (m client.Message, err error) {
	text := func(field string, from *service.InterpolatedString) string {
		value, failed := batch.TryInterpolatedString(i, from)
		if failed != nil && err == nil {
			err = protocol.InvalidParam("publish."+field, failed.Error())
		}
		return value
	}
	m = client.Message{Topic: text("topic", p.topic), ContentType: text("content_type", p.contentType), QoS: p.qos, Expiry: p.expiry}
	switch retain := text("retain", p.retain); retain {
	case "true", "false":
		m.Retain = retain == "true"
	default:
		if err == nil {
			err = protocol.InvalidParam("publish.retain", fmt.Sprintf("must be true or false, is %q", retain))
		}
	}
	for _, name := range p.names {
		m.UserProperties = append(m.UserProperties, client.UserProperty{Key: name, Value: text("properties."+name, p.properties[name])})
	}
	if p.metadata != nil {
		_ = p.metadata.Walk(batch[i], func(name, value string) error {
			m.UserProperties = append(m.UserProperties, client.UserProperty{Key: name, Value: value})
			return nil
		})
		own := m.UserProperties[len(p.names):]
		slices.SortStableFunc(own, func(a, b client.UserProperty) int { return strings.Compare(a.Key, b.Key) })
	}
	if err != nil {
		return m, err
	}
	m.Payload, err = batch[i].AsBytes()
	return m, err
}
