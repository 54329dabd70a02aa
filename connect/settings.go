// Package connect has the settings of integrations: devices and systems that know
// nothing of the bridge.
package connect

import "github.com/aibridge/aibridge/connect/homeassistant"

// Settings name the connected systems.
type Settings struct {
	Bindings      string                 `yaml:"bindings" doc:"file or folder with bindings of plain topics (*.yaml), followed while the bridge runs"`
	HomeAssistant homeassistant.Settings `yaml:"homeassistant"`
}

// DefaultSettings connect nothing.
func DefaultSettings() Settings { return Settings{HomeAssistant: homeassistant.DefaultSettings()} }
