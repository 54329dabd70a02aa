package mcp

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// watchEvery is the interval at which lists are compared with what clients were told.
const watchEvery = time.Second

// maxIdleGuests is the number of guests without that a session are kept.
const maxIdleGuests = 256

// A guest is a principal that is or was here lately. Each has a server of the
// SDK's, so that nobody hears of changes in what others may see.
type guest struct {
	server *sdk.Server

	mu       sync.Mutex
	grant    grant.Grant // as it came last
	revision string      // of its tools, as its sessions know them
	used     time.Time
	heard    map[chan struct{}]struct{} // by streams that the SDK knows nothing of
	followed map[string]*followed       // resources by their URIs
}

// hear returns a channel that has a value when the guest's lists have changed,
// until stop is called.
func (g *guest) hear() (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.heard == nil {
		g.heard = make(map[chan struct{}]struct{})
	}
	g.heard[ch] = struct{}{}
	return ch, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.heard, ch)
	}
}

func (g *guest) sessions() int {
	g.mu.Lock()
	n := len(g.heard)
	g.mu.Unlock()
	for range g.server.Sessions() {
		n++
	}
	return n
}

// guests are all of them.
type guests struct {
	door *Door

	mu     sync.Mutex
	known  map[string]*guest // by party
	closed bool
}

func newGuests(d *Door) *guests { return &guests{door: d, known: make(map[string]*guest)} }

// party names who somebody is, whatever they show.
func party(who *protocol.Principal) string { return who.Party().String() }

// of is the guest that a principal is.
func (gs *guests) of(who *protocol.Principal) *guest {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	name := party(who)
	g, ok := gs.known[name]
	if !ok {
		gs.forget()
		g = &guest{server: gs.door.newServer()}
		gs.known[name] = g
	}
	g.mu.Lock()
	g.grant, g.used = grant.Of(who), time.Now()
	g.mu.Unlock()
	return g
}

// forget drops guests that have no session when there are many. gs.mu is held.
func (gs *guests) forget() {
	if len(gs.known) < maxIdleGuests {
		return
	}
	for name, g := range gs.known {
		if g.sessions() == 0 {
			delete(gs.known, name)
		}
	}
}

func (gs *guests) all() []*guest {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return slices.Collect(maps.Values(gs.known))
}

// watch tells guests what has changed until ctx ends.
func (gs *guests) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen, swept := "", time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		revision := gs.door.opts.Catalogue.Revision()
		may := gs.door.touched.take()
		if revision != seen || time.Since(swept) >= sweepEvery { // tools are a resource, too
			swept = time.Now()
			told := may
			may = func(uri string) bool { return told(uri) || !gs.door.opts.Foreign.Owns(uri) }
		}
		for _, g := range gs.all() {
			g.part()
			if g.sessions() > 0 {
				gs.door.compare(ctx, g, revision != seen)
				gs.door.look(ctx, g, may)
			}
		}
		seen = revision
	}
}

// compare tells a guest if its tools are not those that it knows.
func (d *Door) compare(ctx context.Context, g *guest, changed bool) {
	g.mu.Lock()
	given, known := g.grant, g.revision
	g.mu.Unlock()
	if known != "" && !changed {
		return
	}
	who, err := d.opts.Grants.Principal(given)
	if err != nil {
		return // it is told when it comes again
	}
	env := tools.Environment{Principal: who, Space: who.Home()}
	box, err := d.opts.Catalogue.Select(ctx, env, []string{everything})
	if err != nil {
		return // it is tried again, and listing tells why
	}
	revision := d.shown(ctx, env, box)
	g.mu.Lock()
	g.revision = revision
	g.mu.Unlock()
	if known != "" && known != revision {
		g.announce(d)
	}
}

// shown is the same only while the tools, and what other servers have to read,
// are the same for a principal.
func (d *Door) shown(ctx context.Context, env tools.Environment, box *tools.Toolbox) string {
	return box.Revision() + "\n" + d.opts.Foreign.Shown(ctx, env)
}

// announce tells all sessions of a guest to list anew. The SDK tells it when a
// feature is registered; none of these is ever shown, since lists come from
// [Door.features].
func (g *guest) announce(d *Door) {
	g.mu.Lock()
	for ch := range g.heard {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	g.mu.Unlock()
	g.server.AddTool(&sdk.Tool{Name: "-", InputSchema: rawSchema(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, nil })
	if d.opts.Prompts != nil {
		g.server.AddPrompt(&sdk.Prompt{Name: "-"},
			func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) { return nil, nil })
	}
	if d.opts.Resources != nil {
		g.server.AddResource(&sdk.Resource{Name: "-", URI: "aibridge://-"},
			func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) { return nil, nil })
	}
}

// closeTimeout bounds the wait for calls that do not notice that they are over.
const closeTimeout = 5 * time.Second

// close ends all sessions.
func (gs *guests) close() {
	gs.mu.Lock()
	gs.closed = true
	gs.mu.Unlock()
	var ending sync.WaitGroup
	for _, g := range gs.all() {
		for session := range g.server.Sessions() {
			ending.Go(func() { _ = session.Close() })
		}
	}
	ended := make(chan struct{})
	go func() { ending.Wait(); close(ended) }()
	late := time.NewTimer(closeTimeout)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	}
}

// listed remembers what a guest knows of its tools, if it knew nothing.
func (g *guest) listed(revision string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.revision == "" {
		g.revision = revision
	}
}
