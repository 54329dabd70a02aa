package app

import (
	"github.com/spf13/pflag"

	"github.com/aibridge/aibridge/internal/config"
)

// Config holds all settings of a bridge.
type Config = config.Config

// DefaultConfig is the configuration without any setting given.
func DefaultConfig() Config { return config.Default() }

// LoadConfig reads the configuration: defaults, then the file, then AIBRIDGE_*
// variables, then flags that were given; later ones win.
func LoadConfig(fs *pflag.FlagSet) (Config, error) { return config.Load(fs, Commands()) }
