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

// Options configure a [Service]. Asker, Executor, Runs, Packages, Dir and
// Sealer are needed.
type Options struct {
	Asker     Asker
	Executor  Executor
	Catalogue Catalogue // of the bridge's tools, nil for none
	// Retriever chooses when there are more tools than a model is offered;
	// optional, then their words alone decide.
	Retriever tools.Retriever
	Runs      records.Table[Record]
	Packages  records.Table[PackageRecord]
	// Current reports whether the tables show the present state; nil if they
	// always do.
	Current func() bool
	Dir     string // for packages, and for what belongs to each run
	Sealer  Sealer

	// Logs and Blobs keep the diaries, files and packages of runs for all bridges of
	// a cluster; Dir has copies then. Both are nil for a bridge that has its runs to
	// itself.
	Logs  Log
	Blobs Blobs
	// Node is this process in the records of runs that it has go on, "" where there
	// are no others.
	Node string
	// Heir returns a function that says whether this process is the one to go on with
	// a run that another has begun, which has ended. It knows of all that have ended
	// before it was called. Needed with Node.
	Heir func(ctx context.Context) (func(node, run string) bool, error)
	// Elsewhere has another process do one of the [Service.Errands]. Needed with Node.
	Elsewhere func(ctx context.Context, node, do string, with, result any) error

	// Grants judges who started runs, before every step of theirs. Nil: their
	// grants hold for ever.
	Grants grant.Authority
	// Project opens a run's @project by the name that its starter gives; without one
	// it is run-ID. The right to act there is judged each time.
	Project func(ctx context.Context, owner grant.Grant, name string) (mount.FS, error)
	// Fetch reads a file of the VFS, of so many bytes at most.
	Fetch func(ctx context.Context, who *protocol.Principal, group, path string, most int64) ([]byte, error)
	// MayActFor returns an error if a caller may not speak for a skill.
	MayActFor func(ctx context.Context, call *commands.Call, skill string) error
	// Publish sends an event of a run on its topic.
	Publish func(to protocol.Recipients, id protocol.TaskID, e *protocol.Event)
	Audit   func(Audited)
	// Approvals are asked about calls that need an approval, which wait for it as
	// records. Nil: such calls are as the executor's gate says.
	Approvals Approvals

	Tracer     trace.Tracer   // nil traces nothing
	Policy     Policy         // of the system
	Limits     pack.Limits    // of packages
	Quota      toolhost.Quota // of what a run leaves in files
	MaxTurns   int            // without a word of the user, default 20
	MaxRunning int            // runs at once, default 4096
	MaxOwn     int            // of these, of one principal, default 2048
	MaxRuns    int            // that are kept, default 20 000; of one principal a quarter
	MaxPackage int            // packages that are kept of a space, default 1000
	Keep       time.Duration  // how long a run is kept that is at rest, default 30 days

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
