package run

import (
	"os"

	"github.com/aibridge/aibridge/llm/run/toolhost"
	"github.com/aibridge/aibridge/protocol"
)

// Settings configure the rights and limits of workflows, and the retention of runs.
type Settings struct {
	Turns      int               `yaml:"turns" doc:"number of times that a workflow asks its model without a word of the user"`
	FS         bool              `yaml:"fs" doc:"let workflows use files: the project, the package and their own"`
	ReadBytes  int               `yaml:"read_bytes" doc:"most that one fs.read returns"`
	WriteBytes int               `yaml:"write_bytes" doc:"most that one fs.write writes"`
	StateBytes int               `yaml:"state_bytes" doc:"most that a run keeps in @state, and adds to a folder that is its project between two words of its user"`
	StateFiles int               `yaml:"state_files" doc:"the same in files and folders"`
	Tools      []string          `yaml:"tools" doc:"patterns of the bridge's tools that workflows may use; * is all but commands, which must be named, as in task.get or agent.*"`
	MCPServers []string          `yaml:"mcp_servers" doc:"MCP servers whose tools workflows may use; * is any"`
	Running    int               `yaml:"running" doc:"workflows that run at once"`
	KeepDays   int               `yaml:"keep_days" doc:"time for which a run at rest is kept"`
	Package    int               `yaml:"package_bytes" doc:"largest zip of a package"`
	Folders    map[string]string `yaml:"folders" doc:"folders of this machine that operators may have as a project, by the name they give; others have groups of files"`
}

// DefaultSettings let workflows use files and all tools but commands.
func DefaultSettings() Settings {
	return Settings{
		Turns: DefaultMaxTurns, FS: true, ReadBytes: DefaultMaxRead, WriteBytes: DefaultMaxWrite,
		StateBytes: toolhost.DefaultQuotaBytes, StateFiles: toolhost.DefaultQuotaFiles,
		Tools: []string{"*"}, MCPServers: []string{"*"}, Running: 4096, KeepDays: 30, Package: 32 << 20,
	}
}

// Check reports the faults of the settings to fail.
func (r *Settings) Check(fail func(format string, args ...any)) {
	for _, s := range []struct {
		name  string
		value int
		high  int
	}{
		{"turns", r.Turns, 1000}, {"read_bytes", r.ReadBytes, 64 << 20}, {"write_bytes", r.WriteBytes, 64 << 20},
		{"state_bytes", r.StateBytes, 1 << 30}, {"state_files", r.StateFiles, 1 << 20},
		{"running", r.Running, 1 << 20}, {"keep_days", r.KeepDays, 36500}, {"package_bytes", r.Package, 1 << 30},
	} {
		if s.value < 1 || s.value > s.high {
			fail("runs.%s: %d is not within 1 and %d", s.name, s.value, s.high)
		}
	}
	for name, dir := range r.Folders {
		if reason := protocol.GroupName("").Rule().Check(name); reason != "" {
			fail("runs.folders: the name %q %s", name, reason)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			fail("runs.folders.%s: %s is no folder", name, dir)
		}
	}
}
