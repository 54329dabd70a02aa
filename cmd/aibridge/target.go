package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
)

// A target is the bridge that a command talks to, and the key it shows there.
type target struct {
	url, data, keyFile string
}

func (t *target) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&t.url, "url", os.Getenv("AIBRIDGE_URL"), "MQTT address of the bridge, mqtt://host:port (AIBRIDGE_URL)")
	fs.StringVar(&t.data, "data", "", "data folder of a bridge on this machine, to find its addresses and key in (AIBRIDGE_DATA)")
	fs.StringVar(&t.keyFile, "key-file", "", "file with the API key to show (otherwise AIBRIDGE_API_KEY, then DATA/"+app.AdminKeyFile+")")
}

func (t *target) folder() string {
	switch {
	case t.data != "":
		return t.data
	case os.Getenv("AIBRIDGE_DATA") != "":
		return os.Getenv("AIBRIDGE_DATA")
	}
	return app.DefaultConfig().Data
}

// addresses are those of the bridge on this machine, or the default ones.
func (t *target) addresses() app.Addresses {
	if a, err := app.ReadAddresses(t.folder()); err == nil {
		return a
	}
	c := app.DefaultConfig()
	return app.Addresses{MQTT: c.MQTT, HTTP: c.HTTP, WS: c.WS}
}

func (t *target) mqttURL() string {
	if t.url != "" {
		return t.url
	}
	return "mqtt://" + t.addresses().MQTT
}

// key is the API key to show, "" for none.
func (t *target) key() (string, error) {
	path := t.keyFile
	if path == "" {
		if key := os.Getenv("AIBRIDGE_API_KEY"); key != "" {
			return key, nil
		}
		path = filepath.Join(t.folder(), app.AdminKeyFile)
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && t.keyFile == "" {
		return "", nil // a bridge under --dev asks for none
	}
	return strings.TrimSpace(string(data)), err
}

// dial connects, giving up after a few seconds: a person is waiting.
func (t *target) dial(ctx context.Context, opts ...client.Option) (*client.Client, error) {
	key, err := t.key()
	if err != nil {
		return nil, err
	}
	if key != "" {
		opts = append(opts, client.WithAPIKey(key))
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, t.mqttURL(), opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.mqttURL(), err)
	}
	return c, nil
}
