// Package bridge has the components of a pipeline that talk to an AI Bridge: the input
// and the output "aibridge", and the processor "aibridge_invoke".
package bridge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/aibridge/aibridge/client"
)

// connectionFields are the settings of every component: the address of the bridge,
// and the component's credential there.
func connectionFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewStringField("url").
			Description("Address of the bridge: `mqtt://`, `mqtts://`, `ws://` or `wss://`.").
			Example("mqtts://bridge.example.com:8883").Default("mqtt://127.0.0.1:1883"),
		service.NewStringField("api_key_file").
			Description("File with an API key, read at every start. Nothing is shown to the bridge if neither this nor `api_key` is set.").Default(""),
		service.NewStringField("api_key").Secret().Advanced().
			Description("An API key, better from the environment: `${AIBRIDGE_API_KEY}`.").Default(""),
		service.NewTLSToggledField("tls").Advanced(),
	}
}

// An address is a bridge as a component reaches it.
type address struct {
	url     string
	keyFile string
	key     string
	tls     *tls.Config // nil for the defaults
	log     *service.Logger
}

func newAddress(conf *service.ParsedConfig, mgr *service.Resources) (a address, err error) {
	a.log = mgr.Logger()
	if a.url, err = conf.FieldString("url"); err != nil {
		return a, err
	}
	if a.keyFile, err = conf.FieldString("api_key_file"); err != nil {
		return a, err
	}
	if a.key, err = conf.FieldString("api_key"); err != nil {
		return a, err
	}
	if a.keyFile != "" && a.key != "" {
		return a, errors.New("api_key_file: only one of api_key_file and api_key can be set")
	}
	config, on, err := conf.FieldTLSToggled("tls")
	if on {
		a.tls = config
	}
	return a, err
}

// options are the options of a connection, with the present credential.
func (a address) options() ([]client.Option, error) {
	var options []client.Option
	key := a.key
	if a.keyFile != "" {
		read, err := os.ReadFile(a.keyFile)
		if err != nil {
			return nil, fmt.Errorf("api_key_file: %w", err)
		}
		if key = strings.TrimSpace(string(read)); key == "" {
			return nil, fmt.Errorf("api_key_file: %s is empty", a.keyFile)
		}
	}
	if key != "" {
		options = append(options, client.WithAPIKey(key))
	}
	if a.tls != nil {
		options = append(options, client.WithTLS(a.tls))
	}
	return options, nil
}

// dial makes a connection that restores itself.
func (a address) dial(ctx context.Context) (*client.Client, error) {
	options, err := a.options()
	if err != nil {
		return nil, err
	}
	return client.Dial(ctx, a.url, append(options, client.WithLogger(a.logger()))...)
}

// A line is a component's connection, which is made when it is needed.
type line struct {
	at address

	mu sync.Mutex
	c  *client.Client // nil without one
}

// client is the connection, a new one if there is none or the last has ended.
func (l *line) client(ctx context.Context) (*client.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c != nil {
		select {
		case <-l.c.Done():
			_ = l.c.Close()
			l.c = nil
		default:
			return l.c, nil
		}
	}
	c, err := l.at.dial(ctx)
	if err == nil {
		l.c = c
	}
	return c, err
}

func (l *line) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c == nil {
		return nil
	}
	c := l.c
	l.c = nil
	return c.Close()
}
