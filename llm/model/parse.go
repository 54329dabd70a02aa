package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxConfig bounds a configuration's text, in bytes.
const maxConfig = 4 << 20

// ParseConfig reads a configuration, which is YAML. Keys that are not known
// are errors. What the configuration says is checked by [Config.Check].
func ParseConfig(text []byte) (Config, error) {
	var c Config
	if len(text) > maxConfig {
		return c, fmt.Errorf("more than %d bytes", maxConfig)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err := d.Decode(&c)
	if errors.Is(err, io.EOF) { // empty: no models
		return c, nil
	}
	if bad, ok := errors.AsType[*yaml.TypeError](err); ok {
		for i, reason := range bad.Errors {
			bad.Errors[i] = unknownKey.ReplaceAllString(reason, "there is no setting $1")
		}
		return c, errors.New(strings.Join(bad.Errors, "; "))
	}
	return c, err
}

// unknownKey is the decoder's text for it, in terms of Go.
var unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)
