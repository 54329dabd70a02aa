package console

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

const (
	plainCookie = "aibridge_session"
	cookieSize  = 32 // bytes of a session's name

	sessionLife = 12 * time.Hour // after which one signs in again
	maxSessions = 4096
	maxOwn      = 32 // sessions of one party; one more ends its oldest
)

// A session is one browser in which a principal has signed in. It lives in memory: after
// a restart people sign in again.
type session struct {
	grant  grant.Grant
	ends   time.Time
	begun  time.Time
	forget func() bool // no longer wait for the end of the credential
}

// sessions are known by the hash of the name in the cookie.
type sessions struct {
	grants grant.Authority
	now    func() time.Time

	mu   sync.Mutex
	open map[[sha256.Size]byte]*session
}

func newSessions(grants grant.Authority, now func() time.Time) *sessions {
	return &sessions{grants: grants, now: now, open: make(map[[sha256.Size]byte]*session)}
}

// begin opens a session and returns its name. It ends with the credential, and
// after twelve hours.
func (s *sessions) begin(who *protocol.Principal) (name string, ends time.Time) {
	random := make([]byte, cookieSize)
	_, _ = rand.Read(random) // it never fails
	name = base64.RawURLEncoding.EncodeToString(random)
	key := sha256.Sum256([]byte(name))
	now := s.now()
	opened := &session{grant: grant.Of(who), begun: now, ends: now.Add(sessionLife)}
	if !who.Expires.IsZero() && who.Expires.Before(opened.ends) {
		opened.ends = who.Expires
	}
	s.mu.Lock()
	s.makeRoom(opened.grant.Party(), now)
	s.open[key] = opened
	s.mu.Unlock()
	forget := s.grants.OnEnd(opened.grant, func(error) { s.drop(key) })
	s.mu.Lock()
	opened.forget = forget
	gone := s.open[key] != opened
	s.mu.Unlock()
	if gone { // dropped before it could be told how to forget
		forget()
	}
	return name, opened.ends
}

// makeRoom ends sessions that are over, and the oldest where there are too
// many. s.mu is held.
func (s *sessions) makeRoom(party protocol.Party, now time.Time) {
	own, first, oldest := 0, [sha256.Size]byte{}, [sha256.Size]byte{}
	var ownBegun, begun time.Time
	for key, open := range s.open {
		if !now.Before(open.ends) {
			s.remove(key)
			continue
		}
		if oldest == ([sha256.Size]byte{}) || open.begun.Before(begun) {
			oldest, begun = key, open.begun
		}
		if open.grant.Party() != party {
			continue
		}
		if own++; first == ([sha256.Size]byte{}) || open.begun.Before(ownBegun) {
			first, ownBegun = key, open.begun
		}
	}
	switch {
	case own >= maxOwn:
		s.remove(first)
	case len(s.open) >= maxSessions:
		s.remove(oldest)
	}
}

// remove ends a session. s.mu is held.
func (s *sessions) remove(key [sha256.Size]byte) {
	open := s.open[key]
	if open == nil {
		return
	}
	delete(s.open, key)
	if open.forget != nil {
		open.forget()
	}
}

func (s *sessions) drop(key [sha256.Size]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(key)
}

// find is the session of a name, nil if there is none.
func (s *sessions) find(name string) *session {
	key := sha256.Sum256([]byte(name))
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.open[key]
	if open != nil && !s.now().Before(open.ends) {
		s.remove(key)
		return nil
	}
	return open
}

func (s *sessions) end(name string) { s.drop(sha256.Sum256([]byte(name))) }

// Recognise yields who signed in with the page that sends a request: nil if it
// is not the request of such a page, also for requests that show a credential
// of their own. It costs nothing for requests without the cookie.
func (d *Door) Recognise(r *http.Request) *protocol.Principal {
	if len(r.Header["Cookie"]) == 0 || len(r.Header["Authorization"]) > 0 || len(r.Header["X-Api-Key"]) > 0 ||
		r.TLS != nil && len(r.TLS.PeerCertificates) > 0 || !fromThePage(r) {
		return nil
	}
	open := d.sessions.find(d.cookieOf(r))
	if open == nil {
		return nil
	}
	who, err := d.Grants.Principal(open.grant)
	if err != nil {
		return nil
	}
	return who
}

// hostOnly begins the names of cookies that browsers take from this very host alone:
// over TLS, for the path /, and from no other host of its domain (RFC 6265bis,
// section 4.1.3.2).
const hostOnly = "__Host-"

// overTLS reports whether a request is known to have come over TLS: to the bridge, or
// to the proxy in front of the console that the issuers know.
func (d *Door) overTLS(r *http.Request) bool { return r.TLS != nil || d.consoleOf(r) != nil }

// consoleOf is the address with TLS that the issuers know the console by, nil if the
// request is for another.
func (d *Door) consoleOf(r *http.Request) *url.URL {
	if len(d.Issuers) == 0 {
		return nil
	}
	console := d.Issuers[0].Console() // all have the same
	if console.Scheme != "https" || !strings.EqualFold(authority(r.Host, "https"), authority(console.Host, "https")) {
		return nil
	}
	return console
}

// cookieName is the name of the cookie of a session. Consoles in different folders
// of one host have different ones.
func (d *Door) cookieName(r *http.Request) string {
	if !d.overTLS(r) {
		return plainCookie
	}
	name := hostOnly + plainCookie
	if console := d.consoleOf(r); console != nil && folder(console) != "/" {
		sum := sha256.Sum256([]byte(folder(console)))
		name += "-" + hex.EncodeToString(sum[:4])
	}
	return name
}

// cookieOf is the name of a session that a request shows, "" for none. Of two cookies
// neither counts: one of them was planted.
func (d *Door) cookieOf(r *http.Request) string {
	cookies := r.CookiesNamed(d.cookieName(r))
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

// fromThePage reports whether the browser says that a request comes from a page
// of this very address. SameSite=Strict keeps out other sites; this keeps out
// their neighbours, other ports and subdomains.
func fromThePage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return true
	case "none": // the person's own doing, such as a download that was reloaded
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	case "":
		origin, err := url.Parse(r.Header.Get("Origin"))
		return err == nil && origin.Host != "" && strings.EqualFold(authority(origin.Host, origin.Scheme), authority(r.Host, origin.Scheme))
	}
	return false
}

// authority is a host without the port that its scheme has anyhow.
func authority(host, scheme string) string {
	return strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[cmp.Or(scheme, "http")])
}
