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

// The bounds of followed resources.
const (
	maxFollowed  = 100  // resources by one session or stream
	allFollowed  = 1000 // by all of a principal
	maxFollowURI = 2048 // bytes
	maxTouched   = 4096 // changed resources that wait for a check; with more all are checked
)

// sweepEvery is the interval at which all followed resources are checked, with or
// without a report of a change.
const sweepEvery = 30 * time.Second

// A touched collects the URIs of resources that may have changed.
type touched struct {
	wanted atomic.Bool // a resource was followed since the start

	mu   sync.Mutex
	uris map[string]bool
	all  bool
}

// Touch reports that the resource of a URI may have changed, or any below it if the URI
// ends in a slash. Followers are notified within a second or two, if it has changed. It
// does not block.
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

// Followed reports whether a resource was ever followed: before that, calls of Touch
// are not needed.
func (d *Door) Followed() bool { return d.touched.wanted.Load() }

// take empties the collection, and returns a function that reports whether a URI was in
// it.
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

// A followed is the state of a followed resource.
type followed struct {
	stamp string         // stamp of the last notified state
	news  uint64         // number of changes since the first follower
	by    map[any]func() // functions that end the following, by session or stream
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

// unfollow ends the following of one resource by a session or stream, or of all with
// "".
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

// news is the number of notified changes of a resource.
func (g *guest) news(uri string) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.followed[uri]; f != nil {
		return f.news
	}
	return 0
}

// part ends the following by ended sessions.
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

// look notifies a guest of its followed resources that have changed, among those that
// may have. There is no notification about a resource that the guest may not read any
// more.
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
			_ = g.server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: uri}) // an ended session needs no notification
		}
	}
}

// stampOf is the stamp of a resource that a principal may read, "" for a missing one
// and for those of other servers, which report changes themselves.
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

// subscribe answers resources/subscribe, by the SDK, which has the session's stream.
func (d *Door) subscribe(ctx context.Context, env tools.Environment, r *sdk.SubscribeRequest, next func(context.Context) (sdk.Result, error)) (sdk.Result, error) {
	if err := d.follows(ctx, env, r.Session, r.Params.URI); err != nil {
		return nil, err
	}
	return next(ctx)
}

// hear answers subscriptions/listen by the SDK, restricted to the resources that the
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
