package mcp

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of what is followed.
const (
	maxFollowed  = 100  // resources by one session or stream
	allFollowed  = 1000 // by all of a principal
	maxFollowURI = 2048 // bytes
	maxTouched   = 4096 // that changed and were not looked at yet; with more all are looked at
)

// sweepEvery is the interval at which all that is followed is looked at, told of a
// change or not.
const sweepEvery = 30 * time.Second

// A touched collects the URIs of resources that may have changed.
type touched struct {
	wanted atomic.Bool // somebody has followed something since the start

	mu   sync.Mutex
	uris map[string]bool
	all  bool
}

// Touch notes that the resource of a URI may have changed, or with a slash at its end
// any below it. Who follows it hears of it within a second or two, if it is so. It does
// not block.
func (d *Door) Touch(uri string) {
	t := &d.touched
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.uris == nil {
		t.uris = make(map[string]bool)
	}
	if len(t.uris) >= maxTouched {
		t.all = true
		return
	}
	t.uris[uri] = true
}

// Followed reports whether anybody has followed a resource yet: until then nothing need be
// touched.
func (d *Door) Followed() bool { return d.touched.wanted.Load() }

// take empties the collection, and returns what tells whether a URI was in it.
func (t *touched) take() func(uri string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	uris, all := t.uris, t.all
	t.uris, t.all = nil, false
	return func(uri string) bool {
		if all || uris[uri] {
			return true
		}
		if len(uris) == 0 {
			return false
		}
		for at := strings.LastIndexByte(uri, '/'); at > 0; at = strings.LastIndexByte(uri[:at], '/') {
			if uris[uri[:at+1]] {
				return true
			}
		}
		return false
	}
}

// A followed resource is one that somebody wants to hear of.
type followed struct {
	stamp string         // names the state that was told last
	news  uint64         // changes since it is followed
	by    map[any]func() // sessions and streams, and what ends each
}

// follow has a session or a stream of the guest hear of a resource, which its principal
// may read. stop is called when that is over.
func (g *guest) follow(by any, uri, stamp string, stop func()) *protocol.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	mine := 0
	for _, f := range g.followed {
		if _, follows := f.by[by]; follows {
			mine++
		}
	}
	f := g.followed[uri]
	switch {
	case f != nil && f.by[by] != nil:
		stop() // it is followed already
		return nil
	case mine >= maxFollowed, f == nil && len(g.followed) >= allFollowed:
		stop()
		return protocol.Errorf(protocol.RateLimited, "too many resources are followed: at most %d by one session, %d by all of a principal", maxFollowed, allFollowed)
	case f == nil:
		f = &followed{stamp: stamp, by: make(map[any]func(), 1)}
		if g.followed == nil {
			g.followed = make(map[string]*followed)
		}
		g.followed[uri] = f
	}
	f.by[by] = stop
	return nil
}

// unfollow ends what follow began, of one resource, or of all with "".
func (g *guest) unfollow(by any, uri string) {
	g.mu.Lock()
	var ended []func()
	for at, f := range g.followed {
		if stop := f.by[by]; stop != nil && (uri == "" || uri == at) {
			ended = append(ended, stop)
			if delete(f.by, by); len(f.by) == 0 {
				delete(g.followed, at)
			}
		}
	}
	g.mu.Unlock()
	for _, stop := range ended {
		stop()
	}
}

// news is the number of times that a resource was told to have changed.
func (g *guest) news(uri string) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.followed[uri]; f != nil {
		return f.news
	}
	return 0
}

// part forgets what sessions follow that have ended.
func (g *guest) part() {
	open := make(map[any]bool)
	for s := range g.server.Sessions() {
		open[s] = true
	}
	gone := make(map[any]bool)
	g.mu.Lock()
	for _, f := range g.followed {
		for by := range f.by {
			if _, session := by.(*sdk.ServerSession); session && !open[by] {
				gone[by] = true
			}
		}
	}
	g.mu.Unlock()
	for by := range gone {
		g.unfollow(by, "")
	}
}

// look tells a guest which of the resources that it follows are not as it knows them,
// of those that may have changed. Nobody is told of one that it may not read any more.
func (d *Door) look(ctx context.Context, g *guest, may func(uri string) bool) {
	g.mu.Lock()
	given := g.grant
	stamps := make(map[string]string)
	for uri, f := range g.followed {
		if may(uri) {
			stamps[uri] = f.stamp
		}
	}
	g.mu.Unlock()
	if len(stamps) == 0 {
		return
	}
	who, err := d.opts.Grants.Principal(given)
	if err != nil {
		return
	}
	env := tools.Environment{Principal: who, Space: who.Home()}
	for uri, told := range stamps {
		stamp, err := d.stampOf(ctx, env, uri)
		if code := protocol.CodeOf(err); err != nil && code != protocol.NotFound && code != protocol.FileNotFound {
			continue
		}
		if stamp == told && !d.opts.Foreign.Owns(uri) {
			continue
		}
		g.mu.Lock()
		f := g.followed[uri]
		if f != nil {
			f.stamp = stamp
			f.news++
		}
		g.mu.Unlock()
		if f != nil {
			_ = g.server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: uri}) // who is gone needs it no more
		}
	}
}

// stampOf names the state of a resource that a principal may read, "" of one that is
// gone. Of other servers' resources the bridge knows only what these say.
func (d *Door) stampOf(ctx context.Context, env tools.Environment, uri string) (string, error) {
	if d.opts.Foreign.Owns(uri) {
		return "", d.opts.Foreign.MayFollow(ctx, env, uri)
	}
	return d.opts.Resources.Stamp(ctx, env, uri)
}

// follows has a session or a stream follow a resource.
func (d *Door) follows(ctx context.Context, env tools.Environment, by any, uri string) error {
	if uri == "" || len(uri) > maxFollowURI {
		return protocol.InvalidParam("uri", "must have between 1 and 2048 bytes")
	}
	stamp, err := d.stampOf(ctx, env, uri)
	if err != nil {
		return notThere(err, uri)
	}
	d.touched.wanted.Store(true)
	stop := func() {}
	if d.opts.Foreign.Owns(uri) {
		if stop, err = d.opts.Foreign.Follow(ctx, env, uri); err != nil {
			return notThere(err, uri)
		}
	}
	if full := d.guests.of(env.Principal).follow(by, uri, stamp, stop); full != nil {
		return full
	}
	return nil
}

// notThere is an error about a resource in the words of MCP.
func notThere(err error, uri string) error {
	if code := protocol.CodeOf(err); code == protocol.NotFound || code == protocol.FileNotFound {
		return sdk.ResourceNotFoundError(bounded(uri, 1024))
	}
	return err
}

// subscribe answers resources/subscribe, with the SDK, which knows the session's stream.
func (d *Door) subscribe(ctx context.Context, env tools.Environment, r *sdk.SubscribeRequest, next func(context.Context) (sdk.Result, error)) (sdk.Result, error) {
	if err := d.follows(ctx, env, r.Session, r.Params.URI); err != nil {
		return nil, err
	}
	return next(ctx)
}

// hear answers subscriptions/listen with the SDK, about those of the resources that its
// client may read.
func (d *Door) hear(ctx context.Context, env tools.Environment, r *sdk.SubscriptionsListenRequest, next func(context.Context) (sdk.Result, error)) (sdk.Result, error) {
	if r.Params == nil || r.Params.Notifications == nil {
		return next(ctx)
	}
	r.Params.Notifications.ResourceSubscriptions = d.followable(ctx, env, r.Session, r.Params.Notifications.ResourceSubscriptions)
	defer d.guests.of(env.Principal).unfollow(r.Session, "")
	return next(ctx)
}

// followable has a session or a stream follow resources, as far as it may.
func (d *Door) followable(ctx context.Context, env tools.Environment, by any, uris []string) (agreed []string) {
	for _, uri := range uris {
		if d.opts.Resources != nil && d.follows(ctx, env, by, uri) == nil {
			agreed = append(agreed, uri)
		}
	}
	return agreed
}
