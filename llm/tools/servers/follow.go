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

// maxFollowed bounds the resources of one server that are followed.
const maxFollowed = 1000

// followTimeout bounds the wait for a server that is to tell of a resource, or not to
// any more.
const followTimeout = 10 * time.Second

// OnUpdate has told called with the public URI of a resource that a server says has
// changed, as long as it is followed. It is set before [Service.Run], and must not block.
func (s *Service) OnUpdate(told func(uri string)) { s.updated = told }

// MayFollow returns the reason why a principal may not follow a resource of a server, nil
// if it may. The right to read it is enough.
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

// Follow has a server tell of changes of a resource, as long as it has a follower: until
// stop is called as often as this.
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
	if !tells(session) || l.device != nil { // a device of that name in another space would be heard of, too
		return nil, protocol.Errorf(protocol.NotFound, "the server does not tell of changes of resources").With("server", server)
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

// unfollow ends one following of a resource, and with the last the server is told.
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
		_ = session.Unsubscribe(ctx, &sdk.UnsubscribeParams{URI: uri}) // what it tells nevertheless is passed over
	}()
}

// tells reports whether a server tells of changes of resources.
func tells(session *sdk.ClientSession) bool {
	hello := session.InitializeResult()
	return hello != nil && hello.Capabilities != nil && hello.Capabilities.Resources != nil && hello.Capabilities.Resources.Subscribe
}

// resume subscribes anew to the followed resources of a server that is back. Each is
// reported as changed, since changes may have been missed meanwhile.
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

// changed tells that a server says that a resource has changed, or one below it.
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
