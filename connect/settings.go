// Package connect has the settings of what the bridge does for devices and
// systems that know nothing of it.
package connect

// Settings say what is connected.
type Settings struct {
	Bindings string `yaml:"bindings" doc:"file or folder with bindings of plain topics (*.yaml), followed while the bridge runs"`
}
