package config

import natsdoor "github.com/aibridge/aibridge/doors/nats"

// Doors are those that are shut until somebody configures them.
type Doors struct {
	NATS natsdoor.Settings `yaml:"nats"`
}
