package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/aibridge/aibridge/commands"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/run"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/llm/run/toolhost"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/security/audit"
)

// Runs says what workflows may do, and how long they are kept.
type Runs struct {
	Turns      int               `yaml:"turns" doc:"how often a workflow asks its model without a word of the user"`
	FS         bool              `yaml:"fs" doc:"let workflows use files: the project, the package and their own"`
	ReadBytes  int               `yaml:"read_bytes" doc:"most that one fs.read returns"`
	WriteBytes int               `yaml:"write_bytes" doc:"most that one fs.write writes"`
	StateBytes int               `yaml:"state_bytes" doc:"most that a run keeps in @state, and adds to a folder that is its project between two words of its user"`
	StateFiles int               `yaml:"state_files" doc:"the same in files and folders"`
	Tools      []string          `yaml:"tools" doc:"patterns of the bridge's tools that workflows may use; * is all but commands, which must be named, as in task.get or agent.*"`
	MCPServers []string          `yaml:"mcp_servers" doc:"MCP servers whose tools workflows may use; * is any"`
	Running    int               `yaml:"running" doc:"workflows that run at once"`
	KeepDays   int               `yaml:"keep_days" doc:"how long a run is kept that is at rest"`
	Package    int               `yaml:"package_bytes" doc:"largest zip of a package"`
	Folders    map[string]string `yaml:"folders" doc:"folders of this machine that operators may have as a project, by the name they give; others have groups of files"`
}

func defaultRuns() Runs {
	return Runs{
		Turns: run.DefaultMaxTurns, FS: true, ReadBytes: run.DefaultMaxRead, WriteBytes: run.DefaultMaxWrite,
		StateBytes: toolhost.DefaultQuotaBytes, StateFiles: toolhost.DefaultQuotaFiles,
		Tools: []string{"*"}, MCPServers: []string{"*"}, Running: 4096, KeepDays: 30, Package: 32 << 20,
	}
}

// check says what is wrong with the settings.
func (r *Runs) check(fail func(format string, args ...any)) {
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

// newRuns makes the part that executes workflows. Its tables are loaded
// afterwards.
func (a *App) newRuns(mqtt *mqttdoor.Clients) {
	c := &a.config.Runs
	a.runs = run.New(run.Options{
		Asker:     a.models,
		Executor:  &tools.Executor{Gate: a.approvals.Gate, MaxDepth: a.tools.executor.MaxDepth, Log: a.log}, // runs record their calls themselves
		Catalogue: a.tools.catalogue,
		Retriever: a.tools.retriever,
		Runs:      store.NewTable[run.Record](a.store, "run"),
		Packages:  store.NewTable[run.PackageRecord](a.store, "runpackage"),
		Current:   func() bool { return a.store.Check() == nil },
		Dir:       filepath.Join(a.config.Data, "runs"),
		Sealer:    a.seals,
		Project:   a.project,
		Fetch:     a.fetchFile,
		MayActFor: a.mayAskFor,
		Grants:    a.credentials,
		Publish:   mqtt.PublishTask,
		Audit:     a.recordRunCall,
		Policy: run.Policy{
			FS:    run.FSPolicy{Enabled: c.FS, MaxReadBytes: int64(c.ReadBytes), MaxWriteBytes: int64(c.WriteBytes)},
			MCP:   run.MCPPolicy{Enabled: len(c.MCPServers) > 0, AllowedServers: c.MCPServers},
			Tools: c.Tools,
		},
		Limits:     pack.Limits{Zip: int64(c.Package)},
		Quota:      toolhost.Quota{Bytes: int64(c.StateBytes), Files: c.StateFiles},
		MaxTurns:   c.Turns,
		MaxRunning: c.Running,
		Keep:       time.Duration(c.KeepDays) * 24 * time.Hour,
		BridgeID:   a.config.ID,
		Log:        a.log,
		Registerer: a.metrics,
	})
}

// startRuns has the workflows go on that an earlier process left running.
func (a *App) startRuns(ctx context.Context) {
	a.runs.Recover(ctx)
	a.life.add("workflows", a.runs.Close)
}

// project is what a name means as a project: a folder that the configuration
// has under it, for operators, or else a group of files that the principal may
// write. Whoever started the run is judged again whenever it uses a file.
func (a *App) project(ctx context.Context, owner grant.Grant, name string) (mount.FS, error) {
	for _, action := range []string{"vfs:read", "vfs:write"} {
		if _, err := a.mayStillUseFiles(ctx, owner, action, name); err != nil {
			return nil, err
		}
	}
	if dir, ok := a.config.Runs.Folders[name]; ok {
		return a.projectFolder(owner, name, dir)
	}
	files := &vfsGroup{app: a, owner: owner, name: name}
	if _, err := files.open(ctx, true); err != nil {
		return nil, err
	}
	return mount.NewGroup(files, ""), nil
}

// projectFolder is a folder of this machine as a project.
func (a *App) projectFolder(owner grant.Grant, name, dir string) (mount.FS, error) {
	may := func(ctx context.Context, write bool) error {
		who, err := a.mayStillUseFiles(ctx, owner, fileAction(write), name)
		if err == nil && !who.Manages(protocol.DefaultSpace) {
			err = protocol.Errorf(protocol.VFSPermission, "the project %q is for operators", name).With("param_name", "project")
		}
		return err
	}
	if err := may(context.Background(), true); err != nil {
		return nil, err
	}
	folder, err := mount.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	return mount.Guard(folder, may), nil
}

// fileAction is what using a file is called in policies.
func fileAction(write bool) string {
	if write {
		return "vfs:write"
	}
	return "vfs:read"
}

// mayStillUseFiles is mayUseFiles for who started something that goes on.
func (a *App) mayStillUseFiles(ctx context.Context, owner grant.Grant, action, group string) (*protocol.Principal, error) {
	who, err := a.credentials.Principal(owner)
	if err != nil {
		return nil, err
	}
	return who, a.mayUseFiles(ctx, who, action, group)
}

// mayUseFiles says why somebody may not do what an action means to a group of
// files, by a run or otherwise: what its credential is limited to, and policy.
func (a *App) mayUseFiles(ctx context.Context, who *protocol.Principal, action, group string) error {
	return a.authorizer.Authorize(ctx, who, action, commands.Resource{Type: "vfs", ID: group, Space: who.Home()})
}

// fetchFile reads a file of a group as a principal.
func (a *App) fetchFile(ctx context.Context, who *protocol.Principal, group, path string, most int64) ([]byte, error) {
	if err := a.mayUseFiles(ctx, who, "vfs:read", group); err != nil {
		return nil, err
	}
	files, err := a.files.For(ctx, who, group, false)
	if err != nil {
		return nil, err
	}
	content, about, err := files.Open(ctx, group, path, 0)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	if about.Size > most {
		return nil, protocol.Errorf(protocol.PayloadTooLarge, "the file has more than %d bytes", most).With("limit", most)
	}
	return io.ReadAll(io.LimitReader(content, most))
}

// recordRunCall records a call of a tool by a workflow.
func (a *App) recordRunCall(c run.Audited) {
	entry := audit.Entry{
		Time: c.At, Event: "llm.run.call", Code: audit.OK, Action: "llm:run", Resource: "run/" + c.Run, TraceID: c.TraceID, Door: toolDoor,
		Details: map[string]string{"turn": c.Turn, "tool": c.Tool, "args_sha256": c.Args, "result_sha256": c.Result},
	}
	if c.Code != "" {
		entry.Code, entry.Reason = string(c.Code), string(c.Fault)
	}
	if c.Node != "" {
		entry.Details["node"] = c.Node
	}
	if c.Replayed {
		entry.Details["replayed"] = fmt.Sprint(c.Replayed)
	}
	a.recordArguments(&entry, c.ArgsJSON)
	a.audit.Record(context.Background(), entry.ByGrant(c.Owner))
}
