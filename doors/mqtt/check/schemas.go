package check

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/registry/schema"
)

// A Schema says how the payloads of topics have to be.
type Schema struct {
	Topic     string `yaml:"topic" doc:"topic filter of the messages that are checked"`
	File      string `yaml:"schema" doc:"file with the JSON Schema that payloads have to fit"`
	Otherwise string `yaml:"otherwise" doc:"reject a message that does not fit, count it, or tag it with the user property schema-invalid; reject by default"`
	Space     string `yaml:"space" doc:"only messages of this space; of every space by default"`
}

// Actions for a message that does not fit.
const (
	Reject = "reject"
	Count  = "count"
	Tag    = "tag"
)

// InvalidProperty is the user property that tags a message which does not fit; its
// value is the reason.
const InvalidProperty = "schema-invalid"

// invalid is the reason code for payloads that do not fit: payload format invalid.
const invalid = 0x99

// mostSchemas bounds the settings.
const mostSchemas = 256

// CheckSchemas reports faults of the settings.
func CheckSchemas(schemas []Schema, fail func(format string, args ...any)) {
	if len(schemas) > mostSchemas {
		fail("schemas: %d are more than %d", len(schemas), mostSchemas)
		return
	}
	for i := range schemas {
		s := &schemas[i]
		if !topic.ValidFilter(s.Topic) || topic.IsShared(s.Topic) {
			fail("schemas[%d].topic: %q is not a topic filter", i, s.Topic)
		}
		switch s.Otherwise {
		case "", Reject, Count, Tag:
		default:
			fail("schemas[%d].otherwise: %q is none of reject, count, tag", i, s.Otherwise)
		}
		if _, err := s.read(); err != nil {
			fail("schemas[%d].schema: %w", i, err)
		}
	}
}

// read compiles the schema of the file.
func (s *Schema) read() (*schema.Schema, error) {
	if s.File == "" {
		return nil, errors.New("a file is needed")
	}
	text, err := os.ReadFile(s.File)
	if err != nil {
		return nil, err
	}
	source, err := schema.NewSource(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.File, err)
	}
	compiled, err := schema.Compile(source, schema.Assert)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.File, err)
	}
	if wrong := compiled.Misspelt(); len(wrong) > 0 {
		return nil, fmt.Errorf("%s: %v", s.File, wrong[0])
	}
	return compiled, nil
}

// A Server has its messages inspected. *broker.Broker is one.
type Server interface {
	Inspect(filter string, by broker.Inspector)
}

// Schemas has a server's messages checked.
func Schemas(server Server, schemas []Schema, registerer prometheus.Registerer, log *slog.Logger) error {
	if len(schemas) == 0 {
		return nil
	}
	counted := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_schema_messages_total", Help: "Messages that were checked against a schema, by topic filter and outcome: valid, rejected, counted or tagged.",
	}, []string{"filter", "outcome"})
	registerer.MustRegister(counted)
	for i := range schemas {
		s := &schemas[i]
		compiled, err := s.read()
		if err != nil {
			return fmt.Errorf("schemas[%d].schema: %w", i, err)
		}
		c := &checker{Schema: *s, compiled: compiled, log: log}
		c.valid, c.otherwise = counted.WithLabelValues(s.Topic, "valid"), counted.WithLabelValues(s.Topic, outcomes[s.Otherwise])
		server.Inspect(s.Topic, c.inspect)
	}
	return nil
}

var outcomes = map[string]string{"": "rejected", Reject: "rejected", Count: "counted", Tag: "tagged"}

// A checker holds messages against one schema.
type checker struct {
	Schema
	compiled         *schema.Schema
	valid, otherwise prometheus.Counter
	log              *slog.Logger
}

func (c *checker) inspect(i *broker.Inspection) broker.Verdict {
	if c.Space != "" && string(i.Client.Principal().Home()) != c.Space {
		return broker.Verdict{}
	}
	wrong := c.compiled.Validate(i.Payload)
	if wrong == nil {
		c.valid.Inc()
		return broker.Verdict{}
	}
	c.otherwise.Inc()
	why := wrong.In("payload") + " " + wrong.Reason
	c.log.Debug("a message does not fit its schema", "client", i.Client.ID, "topic", i.Topic, "reason", why)
	switch c.Otherwise {
	case Count:
	case Tag:
		i.Tag(InvalidProperty, short(why))
	default:
		return broker.Verdict{Reason: invalid, Text: short(why)}
	}
	return broker.Verdict{}
}

// short bounds a text for clients.
func short(text string) string {
	const most = 256
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && text[cut]&0xC0 == 0x80 { // within a rune
		cut--
	}
	return text[:cut] + "…"
}
