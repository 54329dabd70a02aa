package console

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// maxSignIn bounds the body of a request to sign in, in bytes.
const maxSignIn = 32 << 10

// A sessionView describes to a page the principal that it acts for.
type sessionView struct {
	SignedIn  bool           `json:"signed_in"`
	Principal *principalView `json:"principal,omitempty"` // absent without a signed-in principal, as the next two
	May       []string       `json:"may,omitempty"`       // actions that policy permits at all
	Bridge    *Bridge        `json:"bridge,omitempty"`
	Cookie    bool           `json:"cookie,omitempty"`  // the page can sign out
	Issuers   []issuerView   `json:"issuers,omitempty"` // where people can sign in; absent for a signed-in principal
}

type principalView struct {
	ID      string           `json:"id"`
	Kind    protocol.Kind    `json:"kind"`
	Space   protocol.SpaceID `json:"space_id"`
	Roles   []string         `json:"roles"`
	Method  string           `json:"method"`
	Expires int64            `json:"expires_at,omitempty"` // Unix ms, of the credential
}

// serveSession tells who a page acts for (GET), signs in (POST), or out (DELETE).
func (d *Door) serveSession(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		d.tellSession(w, r)
	case http.MethodPost:
		d.signIn(w, r)
	case http.MethodDelete:
		d.signOut(w, r)
	default:
		w.Header().Set("Allow", "DELETE, GET, HEAD, POST")
		writeError(w, http.StatusMethodNotAllowed, protocol.Errorf(protocol.MalformedEnvelope, "this path takes DELETE, GET, HEAD, POST"))
	}
}

func (d *Door) tellSession(w http.ResponseWriter, r *http.Request) {
	who := d.Recognise(r)
	cookie := who != nil
	if who == nil && d.Identify != nil {
		who, _ = d.Identify(r) // no credential is needed here
	}
	d.writeSession(w, r, who, cookie)
}

func (d *Door) writeSession(w http.ResponseWriter, r *http.Request, who *protocol.Principal, cookie bool) {
	view := sessionView{SignedIn: who != nil, Cookie: cookie}
	if who != nil {
		view.Principal = &principalView{ID: who.ID, Kind: who.Kind, Space: who.Home(), Roles: append([]string{}, who.Roles...), Method: who.Method}
		if !who.Expires.IsZero() {
			view.Principal.Expires = who.Expires.UnixMilli()
		}
		view.May, view.Bridge = d.May(r.Context(), who), &d.Bridge
	} else {
		view.Issuers = d.issuers()
	}
	writeJSON(w, http.StatusOK, view)
}

// signIn opens a session for a request that shows an API key or a token.
func (d *Door) signIn(w http.ResponseWriter, r *http.Request) {
	var shown struct {
		Key string `json:"key"`
	}
	if err := readJSON(w, r, &shown); err != nil {
		writeError(w, err.Code.HTTPStatus(), err)
		return
	}
	who, err := d.SignIn(r, strings.TrimSpace(shown.Key))
	if err != nil {
		known := protocol.AsError(err)
		writeError(w, known.Code.HTTPStatus(), known)
		return
	}
	http.SetCookie(w, d.open(r, who))
	d.writeSession(w, r, who, true)
}

// open begins a session and returns the cookie of its browser.
func (d *Door) open(r *http.Request, who *protocol.Principal) *http.Cookie {
	if old := d.cookieOf(r); old != "" { // one browser, one session
		d.sessions.end(old)
	}
	name, ends := d.sessions.begin(who)
	d.Log.Info("signed in to the console", "principal", who.ID, "method", who.Method)
	return d.sessionCookie(r, name, ends)
}

// sessionCookie is the cookie of a session, or without a name the one that ends it.
// Over TLS it is the host's alone. Otherwise it has no Path: the browser takes the
// folder of the address it asked, which a proxy in front may have put below a prefix.
func (d *Door) sessionCookie(r *http.Request, name string, ends time.Time) *http.Cookie {
	c := &http.Cookie{
		Name: d.cookieName(r), Value: name, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: d.overTLS(r) || strings.HasPrefix(r.Header.Get("Origin"), "https://"),
	}
	if d.overTLS(r) {
		c.Path = "/"
	}
	if name == "" {
		c.MaxAge = -1
	} else {
		c.Expires = ends
	}
	return c
}

// signOut ends the session of a page.
func (d *Door) signOut(w http.ResponseWriter, r *http.Request) {
	if !fromThePage(r) {
		writeError(w, http.StatusForbidden, protocol.Errorf(protocol.PermissionDenied, "only the page signs out"))
		return
	}
	if name := d.cookieOf(r); name != "" {
		d.sessions.end(name)
	}
	http.SetCookie(w, d.sessionCookie(r, "", time.Time{}))
	writeJSON(w, http.StatusOK, sessionView{Issuers: d.issuers()})
}

// readJSON reads the body of a request, which must say that it is JSON: pages
// of other origins cannot without asking first.
func readJSON(w http.ResponseWriter, r *http.Request, into any) *protocol.Error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return protocol.Errorf(protocol.MalformedEnvelope, "the body must be sent as Content-Type: application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSignIn))
	if over := new(http.MaxBytesError); errors.As(err, &over) {
		return protocol.Errorf(protocol.PayloadTooLarge, "a request to sign in may have %d bytes", maxSignIn)
	}
	if err != nil {
		return protocol.Wrap(protocol.MalformedEnvelope, err, "the body did not arrive")
	}
	if err := json.Unmarshal(body, into); err != nil {
		return protocol.Errorf(protocol.MalformedEnvelope, "the body is not the JSON that is expected here")
	}
	return nil
}

func writeError(w http.ResponseWriter, status int, err *protocol.Error) {
	writeBody(w, status, append(err.Append([]byte(`{"error":`)), '}', '\n'))
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		writeError(w, http.StatusInternalServerError, protocol.AsError(err))
		return
	}
	writeBody(w, status, append(body, '\n'))
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the reader may be gone
}
