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

// maxConfig is the greatest length of a configuration's text, in bytes.
const maxConfig = 4 << 20

// ParseConfig decodes a configuration in YAML. Unknown keys are errors. [Config.Check]
// checks the values.
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

// unknownKey matches the decoder's text about an unknown key, which names types of Go.
var unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)
