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

// watchEvery is the interval at which lists are compared with those last sent to
// clients.
const watchEvery = time.Second

// maxIdleGuests is the number of guests without that a session are kept.
const maxIdleGuests = 256

// A guest is a principal with current or recent requests. Each has a server of the SDK
// of its own, so that no principal learns of changes in the lists of others.
type guest struct {
	server *sdk.Server

	mu       sync.Mutex
	grant    grant.Grant // of its last request
	revision string      // of its tools at the last list or notification
	used     time.Time
	heard    map[chan struct{}]struct{} // channels of streams outside of the SDK
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

// party is the text of a principal's party, independent of its credential.
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

// watch notifies guests of changes until ctx ends.
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

// compare notifies a guest if its tools have changed.
func (d *Door) compare(ctx context.Context, g *guest, changed bool) {
	g.mu.Lock()
	given, known := g.grant, g.revision
	g.mu.Unlock()
	if known != "" && !changed {
		return
	}
	who, err := d.opts.Grants.Principal(given)
	if err != nil {
		return // notified at its next request
	}
	env := tools.Environment{Principal: who, Space: who.Home()}
	box, err := d.opts.Catalogue.Select(ctx, env, []string{everything})
	if err != nil {
		return // repeated later; a list request gets the error
	}
	revision := d.shown(ctx, env, box)
	g.mu.Lock()
	g.revision = revision
	g.mu.Unlock()
	if known != "" && known != revision {
		g.announce(d)
	}
}

// shown changes whenever the tools, or the foreign resources and prompts, of a
// principal change.
func (d *Door) shown(ctx context.Context, env tools.Environment, box *tools.Toolbox) string {
	return box.Revision() + "\n" + d.opts.Foreign.Shown(ctx, env)
}

// announce sends notifications of changed lists to all sessions of a guest. The SDK
// sends them when a feature is registered; the registered ones are never listed, since
// lists come from [Door.features].
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

// closeTimeout is the longest wait for calls that ignore the end of their context.
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

// listed records the revision of a guest's tools, if none was recorded.
func (g *guest) listed(revision string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.revision == "" {
		g.revision = revision
	}
}
