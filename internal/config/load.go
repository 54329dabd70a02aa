package config

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/settings"
)

// AddFlags declares a flag for every setting, and --config for the file.
func AddFlags(fs *pflag.FlagSet) { addFlags(fs, func(string) bool { return true }) }

// AddStateFlags declares the flags of the settings that say where the state
// is, and --config, for tools that work on it without serving clients.
func AddStateFlags(fs *pflag.FlagSet) {
	addFlags(fs, func(flag string) bool {
		return flag == "data" || flag == "root" || flag == "accept-loss" || flag == "vfs-store" || flag == "vfs-dir" || strings.HasPrefix(flag, "nats-") || strings.HasPrefix(flag, "log-")
	})
}

func addFlags(fs *pflag.FlagSet, wanted func(flag string) bool) {
	defaults := Default()
	settings.AddFlags(fs, &defaults, wanted)
}

// Load reads the configuration: defaults, then the file, then AIBRIDGE_*
// variables, then flags that were given; later ones win.
// Known are the commands of the bridge.
func Load(fs *pflag.FlagSet, known *commands.Set) (Config, error) {
	c := Default()
	text, err := settings.Load(fs, &c)
	if err != nil {
		return c, err
	}
	models, _ := os.ReadFile(c.LLM.File) // which may name variables, too; its faults are reported elsewhere
	return c, errors.Join(settings.CheckEnvironment(&c, os.Environ(), true, text, models), c.Check(known))
}

// CheckEnvironment refuses a variable AIBRIDGE_… that is probably misspelt: one
// that means nothing, and nearly is the name of one that does.
func CheckEnvironment() error {
	defaults := Default()
	return settings.CheckEnvironment(&defaults, os.Environ(), false)
}
