// Package files lets HTTP clients at files: the interface of a Skill-VFS, with
// the means of HTTP for caching, ranges and conditional requests
// (docs/vfs.md#http).
package files

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/vfs"
)

// Options configure a [Handler]. All but the last lines are needed.
type Options struct {
	Service *vfs.Service
	// Authenticate yields the principal of a request.
	Authenticate func(*http.Request) (*protocol.Principal, error)
	// Authorize decides whether a principal may do the action of the corresponding
	// command: vfs:read, vfs:write, vfs:list, vfs:delete, vfs:health.
	Authorize func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error
	// Grants judges the credential of a principal again with every piece of an upload or
	// a download, and ends them with it. Nil: it holds.
	Grants grant.Authority
	// Sync runs a request envelope.
	Sync http.Handler
	// Spool is the folder for uploads whose file comes before its name.
	Spool string

	MaxFile   int64         // bytes of an upload, default 4 GiB
	Transfers int           // uploads and downloads at a time, shared among principals (package fair), default 128
	Queue     time.Duration // how long one may wait to begin, default 10 s
	Patience  time.Duration // with the next piece of an upload or a download, default 60 s
	// Record records changes of files, and refusals; optional.
	Record func(Deed)
	Log    *slog.Logger
	Now    func() time.Time
}

// A Handler serves /vfs/….
type Handler struct {
	Options
	mux       *http.ServeMux
	transfers *fair.Semaphore
}

// New makes the handler.
func New(o Options) (*Handler, error) {
	if o.Service == nil || o.Authenticate == nil || o.Authorize == nil || o.Sync == nil {
		return nil, errors.New("files: Service, Authenticate, Authorize and Sync are needed")
	}
	if o.MaxFile <= 0 {
		o.MaxFile = 4 << 30
	}
	if o.Transfers <= 0 {
		o.Transfers = 128
	}
	if o.Queue <= 0 {
		o.Queue = 10 * time.Second
	}
	if o.Patience <= 0 {
		o.Patience = time.Minute
	}
	if o.Grants == nil {
		o.Grants = grant.Unlimited{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &Handler{Options: o, mux: http.NewServeMux(), transfers: fair.New(fair.Options{
		What: "files under way", Capacity: int64(o.Transfers), Waiting: o.Transfers, Patience: o.Queue,
	})}
	h.handle("/vfs/upload", h.upload, http.MethodPost, http.MethodPut)
	h.handle("/vfs/uploads", h.uploads, http.MethodPost, http.MethodGet)
	h.handle(uploadsPath, h.oneUpload, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodDelete)
	h.handle("/vfs/download", h.download, http.MethodGet, http.MethodHead)
	h.handle("/vfs/chunks", h.chunks, http.MethodGet)
	h.handle("/vfs/list", h.list, http.MethodGet, http.MethodHead)
	h.handle("/vfs/delete", h.delete, http.MethodDelete)
	h.handle("/vfs/health", h.health, http.MethodGet, http.MethodHead)
	h.mux.HandleFunc("/vfs/sync", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			refuseMethod(w, http.MethodPost)
			return
		}
		o.Sync.ServeHTTP(w, r)
	})
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, protocol.Errorf(protocol.NotFound, "there is nothing at this path"))
	})
	return h, nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// An action serves one path to an authenticated principal.
type action func(w http.ResponseWriter, r *http.Request, who *protocol.Principal) error

func (h *Handler) handle(path string, do action, methods ...string) {
	h.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		allowed := false
		for _, m := range methods {
			allowed = allowed || r.Method == m
		}
		if !allowed {
			refuseMethod(w, methods...)
			return
		}
		who, err := h.Authenticate(r)
		if err != nil || who == nil {
			fail(w, notAuthenticated(err))
			return
		}
		if err := do(w, r, who); err != nil {
			h.Failed(r, who, err)
			fail(w, err)
		}
	})
}

func notAuthenticated(err error) error {
	var known *protocol.Error
	if errors.As(err, &known) {
		return known
	}
	return protocol.Wrap(protocol.NotAuthenticated, err, "show a credential in the Authorization header")
}

// explain logs the parts of an error that the caller does not get.
func (h *Handler) explain(r *http.Request, err error) {
	if told := Refusal(nil); errors.As(err, &told) {
		return
	}
	if known := new(protocol.Error); !errors.As(err, &known) || known.Unwrap() != nil && known.Code != protocol.SyncFailed {
		h.Log.WarnContext(r.Context(), "a request for files failed", "path", r.URL.Path, "error", err, "cause", errors.Unwrap(err))
	}
}

// enter asks policy and the group whether a principal may do something with
// its files.
func (h *Handler) enter(ctx context.Context, who *protocol.Principal, action, group string) (vfs.Files, error) {
	if err := vfs.CheckGroup(group); err != nil {
		return nil, err
	}
	if err := h.may(ctx, who, action, group); err != nil {
		return nil, err
	}
	return h.Service.For(ctx, who, group, action == "vfs:write" || action == "vfs:delete")
}

// may asks policy, and with it the scopes of the credential, whether a principal may do
// something with the files of a group. The refusal is 4004.
func (h *Handler) may(ctx context.Context, who *protocol.Principal, action, group string) error {
	err := h.Authorize(ctx, who, action, commands.Resource{Type: "vfs", ID: group, Space: who.Space})
	if protocol.CodeOf(err) == protocol.PermissionDenied {
		return protocol.Wrap(protocol.VFSPermission, err, protocol.AsError(err).Message)
	}
	return err
}

// transfer takes a place for an upload or a download, as soon as the principal
// may have one.
func (h *Handler) transfer(ctx context.Context, who *protocol.Principal) (done func(), err error) {
	party := fair.Of(who)
	if err := h.transfers.Acquire(ctx, party, 1); err != nil {
		return nil, err
	}
	return func() { h.transfers.Release(party, 1) }, nil
}

// query returns a parameter that may be named once.
func query(r *http.Request, name string) (string, error) {
	values := r.URL.Query()[name]
	switch {
	case len(values) > 1:
		return "", protocol.InvalidParam(name, "is there twice")
	case len(values) == 0:
		return "", nil
	case strings.ContainsRune(values[0], 0):
		return "", protocol.InvalidParam(name, "may not contain NUL")
	}
	return values[0], nil
}

// queries returns several parameters.
func queries(r *http.Request, into map[string]*string) error {
	for name, value := range into {
		var err error
		if *value, err = query(r, name); err != nil {
			return err
		}
		if name == "path" || name == "prefix" {
			*value = vfs.Relative(*value)
		}
	}
	return nil
}
