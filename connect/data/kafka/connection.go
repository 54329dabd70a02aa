// Package kafka has the input and the output "kafka", which take records of Kafka and
// produce them.
package kafka

import (
	"errors"
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// clientID is the name that brokers see.
const clientID = "aibridge-connect"

func connectionFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewStringListField("seed_brokers").Description("Brokers to ask for the others.").Example([]string{"kafka:9092"}),
		service.NewTLSToggledField("tls").Advanced(),
		service.NewObjectField("sasl",
			service.NewStringEnumField("mechanism", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
			service.NewStringField("username"),
			service.NewStringField("password").Secret(),
		).Advanced().Optional().Description("A name and a password."),
	}
}

// options are those of a connection.
func options(conf *service.ParsedConfig) ([]kgo.Opt, error) {
	brokers, err := conf.FieldStringList("seed_brokers")
	if err != nil {
		return nil, err
	}
	if len(brokers) == 0 {
		return nil, errors.New("seed_brokers: must not be empty")
	}
	opts := []kgo.Opt{kgo.SeedBrokers(brokers...), kgo.ClientID(clientID)}
	config, on, err := conf.FieldTLSToggled("tls")
	if err != nil {
		return nil, err
	}
	if on {
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if conf.Contains("sasl") {
		shown, err := mechanism(conf.Namespace("sasl"))
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(shown))
	}
	return opts, nil
}

func mechanism(conf *service.ParsedConfig) (sasl.Mechanism, error) {
	name, err := conf.FieldString("mechanism")
	if err != nil {
		return nil, err
	}
	user, err := conf.FieldString("username")
	if err != nil {
		return nil, err
	}
	password, err := conf.FieldString("password")
	if err != nil {
		return nil, err
	}
	switch name {
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	}
	return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
}

// logTo has the library's warnings among the pipeline's log.
func logTo(l *service.Logger) kgo.Opt { return kgo.WithLogger(warnings{l}) }

type warnings struct{ to *service.Logger }

func (warnings) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (w warnings) Log(level kgo.LogLevel, text string, pairs ...any) {
	line := text
	for i := 0; i+1 < len(pairs); i += 2 {
		line += fmt.Sprintf(" %v=%v", pairs[i], pairs[i+1])
	}
	if level == kgo.LogLevelError {
		w.to.Error(line)
		return
	}
	w.to.Warn(line)
}
