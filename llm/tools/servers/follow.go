package servers

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/protocol"
)

// maxFollowed is the greatest number of followed resources of one server.
const maxFollowed = 1000

// followTimeout is the time limit of a subscription to a resource, and of its end.
const followTimeout = 10 * time.Second

// OnUpdate sets the receiver of changes: told is called with the public URI of a
// followed resource when its server reports a change. Call OnUpdate before
// [Service.Run]; told must not block.
func (s *Service) OnUpdate(told func(uri string)) { s.updated = told }

// MayFollow returns the error of a principal that may not follow a resource of a
// server. The right to read it suffices.
func (s *Service) MayFollow(ctx context.Context, who *protocol.Principal, server, uri string) error {
	l, err := s.connected(who, server)
	if err != nil {
		return err
	}
	if !l.may(ctx, who, resourceRead.Action) || !l.open().readable || !readable(uri) {
		return protocol.Errorf(protocol.NotFound, "the server has no such approved resource").With("server", server)
	}
	return nil
}

// Follow subscribes to the changes of a resource at its server. The subscription lasts
// until the stop functions of all followers were called.
func (s *Service) Follow(ctx context.Context, who *protocol.Principal, server, uri string) (stop func(), err error) {
	if err := s.MayFollow(ctx, who, server, uri); err != nil {
		return nil, err
	}
	l, err := s.connection(who, server)
	if err != nil {
		return nil, err
	}
	session, err := l.current()
	if err != nil {
		return nil, err
	}
	if !tells(session) || l.device != nil { // changes of a device of that name in another space would be reported, too
		return nil, protocol.Errorf(protocol.NotFound, "the server does not report changes of resources").With("server", server)
	}
	l.mu.Lock()
	if l.followed[uri] == 0 && len(l.followed) >= maxFollowed {
		l.mu.Unlock()
		return nil, protocol.Errorf(protocol.RateLimited, "at most %d resources of an MCP server are followed", maxFollowed).With("server", server)
	}
	l.followed[uri]++
	first := l.followed[uri] == 1
	l.mu.Unlock()
	if first {
		ctx, cancel := context.WithTimeout(ctx, followTimeout)
		defer cancel()
		if err := session.Subscribe(ctx, &sdk.SubscribeParams{URI: uri}); err != nil {
			l.unfollow(uri)
			return nil, l.unread(ctx, err)
		}
	}
	return func() { l.unfollow(uri) }, nil
}

// unfollow removes one follower of a resource. With the last one the subscription at
// the server ends.
func (l *connection) unfollow(uri string) {
	l.mu.Lock()
	l.followed[uri]--
	last := l.followed[uri] <= 0
	if last {
		delete(l.followed, uri)
	}
	session := l.session
	l.mu.Unlock()
	if !last || session == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), followTimeout)
		defer cancel()
		_ = session.Unsubscribe(ctx, &sdk.UnsubscribeParams{URI: uri}) // later reports of the server are ignored
	}()
}

// tells reports whether a server reports changes of resources.
func tells(session *sdk.ClientSession) bool {
	hello := session.InitializeResult()
	return hello != nil && hello.Capabilities != nil && hello.Capabilities.Resources != nil && hello.Capabilities.Resources.Subscribe
}

// resume subscribes anew to the followed resources of a server after a reconnection.
// Each is reported as changed, since changes may have been missed meanwhile.
func (l *connection) resume(ctx context.Context, session *sdk.ClientSession) {
	l.mu.Lock()
	uris := slices.Sorted(maps.Keys(l.followed))
	l.mu.Unlock()
	if len(uris) == 0 || !tells(session) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for _, uri := range uris {
		if err := session.Subscribe(ctx, &sdk.SubscribeParams{URI: uri}); err != nil {
			l.service.opts.Log.Debug("an MCP server does not tell of a resource any more", "server", l.config.Name, "error", l.told(err))
			continue
		}
		l.changed(uri)
	}
}

// changed passes a server's report on a resource to the receiver of changes, for each
// followed resource that is the reported one or contains it.
func (l *connection) changed(uri string) {
	var hit []string
	l.mu.Lock()
	for at := range l.followed {
		if at == uri || strings.HasPrefix(uri, strings.TrimSuffix(at, "/")+"/") {
			hit = append(hit, at)
		}
	}
	l.mu.Unlock()
	if l.service.updated == nil {
		return
	}
	for _, at := range hit {
		l.service.updated(PublicURI(l.config.Name, at))
	}
}
