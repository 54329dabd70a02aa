// Package transfer moves files in chunks over MQTT, for devices that have no
// HTTP. Every chunk stands for itself: it may come late, twice or out of order,
// and a client that lost its connection goes on where it was. docs/vfs.md describes
// the topics.
package transfer

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/vfs"
)

// Options configure a [Door]. All but the last lines are needed.
type Options struct {
	// Files are the files of a group, if the principal may read or write them.
	Files func(ctx context.Context, who *protocol.Principal, group string, write bool) (vfs.Files, error)
	// Authorize decides whether a principal may vfs:read or vfs:write at all.
	Authorize func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error
	// Grants judges the credential of a client that waits for chunks, and of one
	// whose chunks wait; nil accepts every one.
	Grants grant.Authority
	// Publish sends a message to the clients of one principal.
	Publish func(to protocol.Recipients, m protocol.Message) (receivers int, err error)
	Topics  protocol.Topics
	Dir     string // for files of which chunks are missing

	MaxFile      int64         // bytes, default 4 GiB
	MaxStaged    int64         // bytes of all files of which chunks are missing, default twice MaxFile
	MaxChunk     int           // bytes, default 256 KiB
	Uploads      int           // at a time, default 256
	PerPrincipal int           // of them, default 16
	Downloads    int           // at a time, default 16
	Idle         time.Duration // after which an upload is given up, default 10 minutes
	Log          *slog.Logger
	Now          func() time.Time
}

func (o *Options) setDefaults() {
	if o.MaxFile <= 0 {
		o.MaxFile = 4 << 30
	}
	if o.MaxStaged <= 0 {
		o.MaxStaged = 2 * o.MaxFile
	}
	if o.MaxChunk <= 0 {
		o.MaxChunk = 256 << 10
	}
	if o.Uploads <= 0 {
		o.Uploads = 256
	}
	if o.PerPrincipal <= 0 {
		o.PerPrincipal = 16
	}
	if o.Downloads <= 0 {
		o.Downloads = 16
	}
	if o.Idle <= 0 {
		o.Idle = 10 * time.Minute
	}
	if o.Grants == nil {
		o.Grants = grant.Unlimited{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// A Publication is a client's message about a transfer. It is valid only
// during the call.
type Publication struct {
	Principal *protocol.Principal
	Topic     string
	Payload   []byte
}

// A Door takes the publications of clients about transfers.
type Door struct {
	opts   Options
	jobs   chan job
	queued atomic.Int64 // bytes in jobs
	sends  chan struct{}

	mu      sync.Mutex
	uploads map[key]*upload
	mine    map[protocol.Party]int // uploads
	staged  int64
	names   atomic.Uint64

	ctx    context.Context // ends with Run
	ending context.CancelFunc
	wait   sync.WaitGroup
}

// Bounds of data that waits to be written.
const (
	maxJobs   = 512
	maxQueued = 16 << 20 // bytes
)

// New makes a door. It takes nothing before [Door.Run].
func New(o Options) *Door {
	o.setDefaults()
	d := &Door{
		opts: o, jobs: make(chan job, maxJobs), sends: make(chan struct{}, o.Downloads),
		uploads: make(map[key]*upload), mine: make(map[protocol.Party]int),
	}
	d.ctx, d.ending = context.WithCancel(context.Background())
	return d
}

// A key names a transfer. It holds the principal, so that no transfer of another one is
// reached.
type key struct {
	owner protocol.Party
	group string
	id    string
}

// A job is a publication that waits its turn.
type job struct {
	key     key
	grant   grant.Grant // of its publisher
	verb    string      // put or get
	rest    string      // the topic's rest after the transfer's id
	payload []byte
}

// Take takes a publication below aibridge/vfs/. It does not block: what it
// cannot take now is answered with 4008, and may be sent again.
func (d *Door) Take(p *Publication) {
	j, ok := d.parse(p)
	if !ok {
		return // not a topic of this door
	}
	if int(d.queued.Add(int64(len(p.Payload)))) > maxQueued {
		d.turnAway(j, len(p.Payload))
		return
	}
	j.payload = bytes.Clone(p.Payload)
	select {
	case d.jobs <- j:
	default:
		d.turnAway(j, len(p.Payload))
	}
}

func (d *Door) turnAway(j job, size int) {
	d.queued.Add(int64(-size))
	d.refuse(j, "", protocol.BusyFor(100*time.Millisecond, "too much is on its way; send this again").With("at", j.rest))
}

// parse takes a topic apart: GROUP/put/ID/what or GROUP/get/ID.
func (d *Door) parse(p *Publication) (job, bool) {
	rest, ok := d.opts.Topics.Under(p.Topic)
	if !ok {
		return job{}, false
	}
	parts := strings.SplitN(rest, "/", 5)
	if len(parts) < 4 || parts[0] != "vfs" || parts[2] != "put" && parts[2] != "get" {
		return job{}, false
	}
	if vfs.CheckGroup(parts[1]) != nil || protocol.TaskID("").Rule().Check(parts[3]) != "" {
		return job{}, false
	}
	j := job{
		key:   key{p.Principal.Party(), strings.Clone(parts[1]), strings.Clone(parts[3])},
		grant: grant.Of(p.Principal),
		verb:  strings.Clone(parts[2]),
	}
	if len(parts) == 5 {
		j.rest = strings.Clone(parts[4])
	}
	return j, true
}

// Run works on queued messages until ctx ends, and then gives up unfinished transfers.
func (d *Door) Run(ctx context.Context) error {
	defer d.abandon()
	sweep := time.NewTicker(min(d.opts.Idle/4+time.Millisecond, time.Minute))
	defer sweep.Stop()
	for {
		select {
		case j := <-d.jobs:
			d.work(j)
			d.queued.Add(int64(-len(j.payload)))
		case <-sweep.C:
			d.sweep()
		case <-ctx.Done():
			return nil
		}
	}
}

func (d *Door) abandon() {
	d.ending()
	d.wait.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range d.uploads {
		d.drop(u)
	}
}

func (d *Door) work(j job) {
	if j.verb == "get" {
		d.download(j)
		return
	}
	what, rest, _ := strings.Cut(j.rest, "/")
	switch what {
	case "init":
		d.begin(j)
	case "chunk":
		d.chunk(j, rest)
	case "finish":
		d.finish(j)
	case "abort":
		d.abort(j)
	default:
		d.refuse(j, "", protocol.InvalidParam("topic", "must go on with init, chunk/N, finish or abort"))
	}
}

// enter asks the credential, policy and the group whether a principal may read or
// write.
func (d *Door) enter(ctx context.Context, j job, write bool) (vfs.Files, error) {
	action := "vfs:read"
	if write {
		action = "vfs:write"
	}
	on := commands.Resource{Type: "vfs", ID: j.key.group, Space: j.key.owner.Space}
	who, err := d.opts.Grants.Principal(j.grant)
	if err != nil {
		return nil, err
	}
	if err := d.opts.Authorize(ctx, who, action, on); err != nil {
		return nil, err
	}
	return d.opts.Files(ctx, who, j.key.group, write)
}
