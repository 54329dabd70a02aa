package run

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/llm/run/toolhost"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Options configure a [Service]. Asker, Executor, Runs, Packages, Dir and Sealer are
// required.
type Options struct {
	Asker     Asker
	Executor  Executor
	Catalogue Catalogue // of the bridge's tools, nil for none
	// Retriever ranks the tools when there are more than may be offered. Optional;
	// without it the words of the tools decide.
	Retriever tools.Retriever
	Runs      records.Table[Record]
	Packages  records.Table[PackageRecord]
	// Current reports whether the tables show the current state; nil if they always do.
	Current func() bool
	Dir     string // folder of packages and of the files of runs
	Sealer  Sealer

	// Logs and Blobs store the diaries, files and packages of runs for all bridges of a
	// cluster; Dir has copies then. Both are nil without a cluster.
	Logs  Log
	Blobs Blobs
	// Node is the name of this process in the records of its runs, "" without a
	// cluster.
	Node string
	// Heir returns a function that reports whether this process inherits a run of an
	// ended process. It knows of all processes that ended before the call of Heir.
	// Required with Node.
	Heir func(ctx context.Context) (func(node, run string) bool, error)
	// Elsewhere sends one of the [Service.Errands] to another process. Required with
	// Node.
	Elsewhere func(ctx context.Context, node, do string, with, result any) error

	// Grants checks the credentials of runs, before every step. With nil they are valid
	// for ever.
	Grants grant.Authority
	// Project opens a run's @project by the name that its starter gives, run-ID by
	// default. The right to it is checked with each operation.
	Project func(ctx context.Context, owner grant.Grant, name string) (mount.FS, error)
	// Fetch reads a file of the VFS of at most so many bytes.
	Fetch func(ctx context.Context, who *protocol.Principal, group, path string, most int64) ([]byte, error)
	// MayActFor returns the error of a caller that may not act on behalf of a skill.
	MayActFor func(ctx context.Context, call *commands.Call, skill string) error
	// Publish sends an event of a run on its topic.
	Publish func(to protocol.Recipients, id protocol.TaskID, e *protocol.Event)
	Audit   func(Audited)
	// Approvals opens the approvals of calls, for which runs wait as records. With nil
	// the executor's gate handles such calls alone.
	Approvals Approvals

	Tracer     trace.Tracer   // nil traces nothing
	Policy     Policy         // of the system
	Limits     pack.Limits    // of packages
	Quota      toolhost.Quota // of the files of a run
	MaxTurns   int            // turns between two inputs of the user, default 20
	MaxRunning int            // runs at once, default 4096
	MaxOwn     int            // of these, of one principal, default 2048
	MaxRuns    int            // stored runs, default 20 000; a quarter of them for one principal
	MaxPackage int            // stored packages of a space, default 1000
	Keep       time.Duration  // retention of runs at rest, default 30 days

	BridgeID   string
	Log        *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer
}

func (o *Options) setDefaults() {
	o.MaxTurns = cmp.Or(o.MaxTurns, DefaultMaxTurns)
	o.MaxRunning = cmp.Or(o.MaxRunning, 4096)
	o.MaxOwn = cmp.Or(o.MaxOwn, 2048)
	o.MaxRuns = cmp.Or(o.MaxRuns, 20_000)
	o.MaxPackage = cmp.Or(o.MaxPackage, 1000)
	o.Keep = cmp.Or(o.Keep, 30*24*time.Hour)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Publish == nil {
		o.Publish = func(protocol.Recipients, protocol.TaskID, *protocol.Event) {}
	}
	if o.Approvals == nil {
		o.Approvals = nobody{}
	}
	if o.Grants == nil {
		o.Grants = grant.Unlimited{}
	}
}
