package http

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Guard keeps web pages of other sites from driving the bridge through the browser of a
// user that can reach it. It looks at two headers a page cannot forge:
//
//   - Host must be a name of this bridge: a loopback name, a configured one, or
//     an IP address. A page that rebinds its own name to 127.0.0.1 still sends
//     that name, and rebinding needs a name, which is why addresses may pass.
//     Reads in HTTP/1.0 need no Host: load balancers that ask how the bridge is
//     send none, and every browser does.
//   - Origin, where there is one, must be the very host that is asked, or a
//     configured origin. Browsers send it with every POST and every WebSocket
//     handshake; programs send none.
//
// A Guard is safe for concurrent use. The same one belongs in front of every
// HTTP handler of a node, MQTT over WebSocket included.
type Guard struct {
	hosts    map[string]bool // lower case, no port
	origins  map[string]bool // scheme://host[:port], default ports left out
	loopback bool            // any origin on loopback is taken
	log      *slog.Logger
	warned   atomic.Int64 // when a refusal was last logged as a warning, nanoseconds since start
	start    time.Time
}

// GuardOptions configure a [Guard].
type GuardOptions struct {
	Hosts   []string // host names, without port, besides loopback's
	Origins []string // scheme://host[:port], besides the bridge's own
	// LoopbackOrigins lets pages of this machine connect, on any port: those of a
	// developer.
	LoopbackOrigins bool
	Log             *slog.Logger // of refusals; may be nil
}

// NewGuard makes a Guard. It fails on entries that could never match, a wildcard
// for instance.
func NewGuard(o GuardOptions) (*Guard, error) {
	g := &Guard{hosts: make(map[string]bool), origins: make(map[string]bool), loopback: o.LoopbackOrigins, log: o.Log, start: time.Now()}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	for _, h := range o.Hosts {
		if h == "" || strings.ContainsAny(h, "/:*@ ") {
			return nil, protocol.Errorf(protocol.InvalidParameter, "allowed host %q is not a host name without port", h)
		}
		g.hosts[strings.ToLower(h)] = true
	}
	for _, origin := range o.Origins {
		canonical, ok := canonicalOrigin(origin)
		if !ok {
			return nil, protocol.Errorf(protocol.InvalidParameter, "allowed origin %q is not of the form scheme://host[:port]", origin)
		}
		g.origins[canonical] = true
	}
	return g, nil
}

// Check returns the reason why the request may not pass, or nil: 2003 with
// details.reason "host" or "origin".
func (g *Guard) Check(r *http.Request) *protocol.Error {
	if !g.hostAllowed(r.Host) && !asksWithoutHost(r) {
		return protocol.Errorf(protocol.PermissionDenied, "the Host header names no host of this bridge").With("reason", "host")
	}
	if !g.originAllowed(r) {
		return protocol.Errorf(protocol.PermissionDenied, "requests from pages of another origin are refused").With("reason", "origin")
	}
	return nil
}

// Wrap puts the guard in front of next. A refused request is answered with
// status 403 and an error body, before next sees anything of it.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.Check(r); err != nil {
			g.tell(r, err)
			secure(w.Header())
			writeError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// warnEvery keeps pages that try again and again from filling the log.
const warnEvery = 10 * time.Second

// tell logs a refusal and the setting that would admit the request: once in a while as a warning,
// as the reader of the log may be the author of the page.
func (g *Guard) tell(r *http.Request, err *protocol.Error) {
	level, now, last := slog.LevelDebug, int64(time.Since(g.start)), g.warned.Load()
	if (last == 0 || now-last >= int64(warnEvery)) && g.warned.CompareAndSwap(last, now) {
		level = slog.LevelWarn
	}
	host, origin := r.Host, r.Header.Get("Origin")
	setting := "hosts: [" + hostname(host) + "]"
	if err.Details["reason"] == "origin" {
		setting = "origins: [" + origin + "]"
	}
	g.log.Log(r.Context(), level, "a web page is refused", "host", host, "origin", origin, "remote", r.RemoteAddr,
		"why", err.Message, "admitted_by", setting)
}

// asksWithoutHost reports whether a request is a read in HTTP/1.0 that names no host.
func asksWithoutHost(r *http.Request) bool {
	return r.Host == "" && !r.ProtoAtLeast(1, 1) && isSafe(r.Method)
}

func (g *Guard) hostAllowed(hostport string) bool {
	host := hostname(hostport)
	if host == "" {
		return false
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || g.hosts[host] {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

func (g *Guard) originAllowed(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		// Safe methods come without an Origin; what a page could do with one
		// of them it cannot read. Any other request of a browser from elsewhere is
		// still marked as such here.
		site := r.Header.Get("Sec-Fetch-Site")
		return isSafe(r.Method) || site == "" || site == "same-origin" || site == "none"
	}
	if len(values) > 1 {
		return false
	}
	origin, ok := canonicalOrigin(values[0])
	if !ok {
		return false // "null" too: sandboxed frames, files, redirects
	}
	if g.origins[origin] || g.loopback && fromLoopback(origin) {
		return true
	}
	// The scheme the browser used may have been ended by a proxy in front, so
	// https is taken on a plain connection; http on an encrypted one is a page that
	// an attacker on the wire may have written.
	scheme, authority, _ := strings.Cut(origin, "://")
	switch {
	case scheme == "http" && r.TLS == nil, scheme == "https":
		return authority == canonicalAuthority(scheme, strings.ToLower(r.Host))
	}
	return false
}

// fromLoopback reports whether a canonical origin is this machine's.
func fromLoopback(origin string) bool {
	scheme, authority, _ := strings.Cut(origin, "://")
	if scheme != "http" && scheme != "https" {
		return false
	}
	host := hostname(authority)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// hostname is the host of a Host header in lower case without port, brackets
// and the root dot; "" if it is malformed.
func hostname(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	} else if strings.Contains(host, ":") {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// canonicalOrigin is scheme://host[:port] in lower case without the scheme's
// default port.
func canonicalOrigin(s string) (string, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Opaque != "" || u.User != nil ||
		u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(u.Host, "*") {
		return "", false
	}
	scheme := strings.ToLower(u.Scheme)
	return scheme + "://" + canonicalAuthority(scheme, strings.ToLower(u.Host)), true
}

func canonicalAuthority(scheme, authority string) string {
	switch scheme {
	case "http":
		return strings.TrimSuffix(authority, ":80")
	case "https":
		return strings.TrimSuffix(authority, ":443")
	}
	return authority
}
