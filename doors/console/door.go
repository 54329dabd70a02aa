package console

import (
	"context"
	"crypto/cipher"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/aibridge/aibridge/console"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Options configure a [Door]. SignIn and Grants are needed.
type Options struct {
	// SignIn yields who shows a secret, an API key or a token. It takes its time
	// with a wrong one.
	SignIn func(r *http.Request, secret string) (*protocol.Principal, error)
	// Identify yields who a request comes from without the session of a page:
	// by a client certificate, or anybody under --dev.
	Identify func(r *http.Request) (*protocol.Principal, error)
	// Issuers are the issuers at which people can sign in, by OpenID Connect.
	Issuers []Issuer
	// Grants judges what sessions stand on, and ends them with it.
	Grants grant.Authority
	// May lists the actions that a principal may do at all.
	May func(ctx context.Context, who *protocol.Principal) []string

	Bridge Bridge // what the page is told of it
	Files  fs.FS  // the page; the one that is built in by default
	Log    *slog.Logger
	Now    func() time.Time // default time.Now
}

// Bridge is the bridge as the page that belongs to it is told.
type Bridge struct {
	ID       string `json:"id"`
	Version  string `json:"version"`
	Protocol string `json:"protocol"`
	Root     string `json:"root"` // first level of every topic
	Dev      bool   `json:"dev,omitempty"`
	MQTT     string `json:"mqtt,omitempty"` // addresses, as the bridge listens
	MQTTS    string `json:"mqtts,omitempty"`
	HTTP     string `json:"http,omitempty"`
	WS       string `json:"ws,omitempty"`
}

// A Door serves the page and keeps its sessions. It is safe for concurrent use.
type Door struct {
	Options
	sessions *sessions
	assets   assets
	seal     cipher.AEAD // of the attempt that a browser keeps during a sign-in elsewhere
}

// New makes a door.
func New(o Options) (*Door, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Grants == nil {
		o.Grants = grant.Unlimited{}
	}
	if o.Files == nil {
		o.Files = console.Files()
	}
	if o.May == nil {
		o.May = func(context.Context, *protocol.Principal) []string { return nil }
	}
	seal, err := newSeal()
	if err != nil {
		return nil, err
	}
	d := &Door{Options: o, sessions: newSessions(o.Grants, o.Now), seal: seal}
	d.assets, err = loadAssets(o.Files)
	return d, err
}

// Mounts are the paths that the door serves.
func (d *Door) Mounts() map[string]http.Handler {
	mounts := map[string]http.Handler{
		"GET /{$}":                   http.HandlerFunc(d.servePage),
		"GET /assets/{file}":         http.HandlerFunc(d.serveAsset),
		"/session":                   http.HandlerFunc(d.serveSession),
		"GET /session/oidc":          http.HandlerFunc(d.sendToIssuer),
		"GET /session/oidc/callback": http.HandlerFunc(d.returnFromIssuer),
	}
	for _, page := range console.Pages {
		mounts["GET /"+page] = http.HandlerFunc(d.servePage)
		mounts["GET /"+page+"/"] = http.HandlerFunc(d.servePage)
	}
	return mounts
}
