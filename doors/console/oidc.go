package console

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An Issuer lets people sign in at its own page, by OpenID Connect.
type Issuer interface {
	Issuer() string // its URL
	Title() string  // its name for people
	// Console is the address of the console in people's browsers, ending in /.
	// The issuer sends them to session/oidc/callback below it.
	Console() *url.URL
	// Ask is the address to send a browser to.
	Ask(ctx context.Context, state, nonce, verifier string) (string, error)
	// Redeem yields the principal that has signed in, from the request by which a browser
	// came back. It takes its time with a wrong one.
	Redeem(r *http.Request, nonce, verifier string) (*protocol.Principal, error)
}

type issuerView struct {
	Issuer string `json:"issuer"`
	Title  string `json:"title"`
}

func (d *Door) issuers() []issuerView {
	var views []issuerView
	for _, i := range d.Issuers {
		views = append(views, issuerView{i.Issuer(), i.Title()})
	}
	return views
}

const (
	attemptCookie = "aibridge_signin"
	attemptLife   = 10 * time.Minute // for a person to sign in at an issuer
	maxReturn     = 2 << 10          // bytes of the address that the browser asked for
)

// An attempt is the state of a sign-in at an issuer. The browser keeps it, sealed: the
// bridge stores nothing for people who do not come back, and an attempt is of no use in
// another browser.
type attempt struct {
	Issuer   string    `json:"i"`
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	To       string    `json:"t"` // the page they wanted, below the console's address
	Ends     time.Time `json:"e"`
}

// newSeal makes a seal that lasts as long as the process, as sessions do.
func newSeal() (cipher.AEAD, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// sendToIssuer sends a browser to an issuer's page.
func (d *Door) sendToIssuer(w http.ResponseWriter, r *http.Request) {
	issuer := d.issuer(r.URL.Query().Get("issuer"))
	if issuer == nil {
		writeError(w, http.StatusNotFound, protocol.Errorf(protocol.NotFound, "nobody signs in at that issuer"))
		return
	}
	console := issuer.Console()
	if !strings.EqualFold(authority(r.Host, console.Scheme), authority(console.Host, console.Scheme)) {
		// By another name of this host the cookie would not come back.
		console.RawQuery = "sign_in=elsewhere"
		http.Redirect(w, r, console.String(), http.StatusSeeOther)
		return
	}
	a := attempt{Issuer: issuer.Issuer(), State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), To: r.URL.Query().Get("to"), Ends: d.Now().Add(attemptLife)}
	if len(a.To) > maxReturn {
		a.To = ""
	}
	at, err := issuer.Ask(r.Context(), a.State, a.Nonce, a.Verifier)
	if err != nil {
		d.back(w, r, issuer, "unreachable")
		return
	}
	http.SetCookie(w, d.keep(console, &a))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, at, http.StatusSeeOther)
}

// returnFromIssuer signs in a person whose browser comes back from an issuer's page.
func (d *Door) returnFromIssuer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	a := d.attempt(r)
	if a == nil || subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("state")), []byte(a.State)) != 1 {
		d.backSomewhere(w, r)
		return
	}
	issuer := d.issuer(a.Issuer)
	console := issuer.Console()
	http.SetCookie(w, d.keep(console, nil))
	if r.URL.Query().Has("error") {
		d.back(w, r, issuer, "refused")
		return
	}
	who, err := issuer.Redeem(r, a.Nonce, a.Verifier)
	switch code := protocol.AsError(err); {
	case err == nil:
	case code.Code == protocol.TargetUnavailable || code.Code == protocol.Busy:
		d.back(w, r, issuer, "unreachable")
		return
	default:
		d.back(w, r, issuer, "refused")
		return
	}
	cookie := d.open(r, who)
	if !d.overTLS(r) {
		cookie.Path, cookie.Secure = folder(console), console.Scheme == "https"
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, below(console, a.To), http.StatusSeeOther)
}

func (d *Door) issuer(url string) Issuer {
	at := slices.IndexFunc(d.Issuers, func(i Issuer) bool { return i.Issuer() == url })
	if at < 0 {
		return nil
	}
	return d.Issuers[at]
}

// keep makes the cookie of an attempt; without one the cookie that ends it. It
// is Lax: the browser comes back from another site.
func (d *Door) keep(console *url.URL, a *attempt) *http.Cookie {
	c := &http.Cookie{Name: attemptCookie, Path: console.Path + "session/oidc", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: -1}
	if console.Scheme == "https" {
		c.Name, c.Path, c.Secure = hostOnly+attemptCookie, "/", true
	}
	if a == nil {
		return c
	}
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // texts and a time have a JSON form
	}
	c.Value, c.MaxAge = base64.RawURLEncoding.EncodeToString(d.seal.Seal(nil, nil, text, nil)), int(attemptLife/time.Second)
	return c
}

// attempt is the attempt of the browser that comes back, nil without one. Over TLS no
// other site can have planted it: the person who signs in is the one sent to the issuer.
func (d *Door) attempt(r *http.Request) *attempt {
	if len(d.Issuers) == 0 {
		return nil
	}
	cookies := r.CookiesNamed(d.keep(d.Issuers[0].Console(), nil).Name) // all have the same console
	if len(cookies) != 1 {
		return nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookies[0].Value)
	if err != nil {
		return nil
	}
	text, err := d.seal.Open(nil, nil, sealed, nil)
	if err != nil {
		return nil
	}
	a := new(attempt)
	if json.Unmarshal(text, a) != nil || !d.Now().Before(a.Ends) || d.issuer(a.Issuer) == nil {
		return nil
	}
	return a
}

// back leads to the form to sign in, which says why.
func (d *Door) back(w http.ResponseWriter, r *http.Request, issuer Issuer, why string) {
	console := issuer.Console()
	console.RawQuery = url.Values{"sign_in": {why}}.Encode()
	http.Redirect(w, r, console.String(), http.StatusSeeOther)
}

// backSomewhere leads back a browser without an attempt, or with one that is over: its
// issuer is not known, but all have the same console.
func (d *Door) backSomewhere(w http.ResponseWriter, r *http.Request) {
	if len(d.Issuers) == 0 {
		http.NotFound(w, r)
		return
	}
	d.back(w, r, d.Issuers[0], "stale")
}

// folder is the path that the cookie of a session has by itself when somebody
// signs in with a key: there is one of them, wherever it comes from.
func folder(console *url.URL) string { return cmp.Or(strings.TrimSuffix(console.Path, "/"), "/") }

// below is an address below the console's; anything else is the console's own.
func below(console *url.URL, to string) string {
	relative, err := url.Parse(to)
	if err != nil || relative.IsAbs() || relative.Host != "" || relative.Opaque != "" || strings.HasPrefix(to, "/") || strings.ContainsAny(to, "\\\r\n\t") {
		return console.String()
	}
	if slices.Contains(strings.Split(relative.Path, "/"), "..") {
		return console.String()
	}
	return console.ResolveReference(relative).String()
}
