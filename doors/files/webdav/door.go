// Package webdav serves the files of the VFS by WebDAV (RFC 4918), for programs
// that know no bridge: rclone, davfs2, the file managers of systems. A group is a
// folder at the top, /dav/GROUP/PATH.
//
// Every write is one of the VFS: it makes a version, is seen whole or not at all,
// and COPY and MOVE take no bytes. Entity tags are the SHA-256 of the content. The
// decision record 0043 says why the handler is our own.
package webdav

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/aibridge/aibridge/doors/files"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Path is the path of the door.
const Path = "/dav"

// Options configure a [Door]. Files, Locks and Authenticate are needed.
type Options struct {
	Files *files.Handler
	Locks records.Table[Lock]
	// CatchUp waits until the table shows what other bridges have stored before the call.
	// Nil: it always does.
	CatchUp func(context.Context) error
	// Authenticate yields the principal of a request, by HTTP Basic among others.
	Authenticate func(*http.Request) (*protocol.Principal, error)
	Now          func() time.Time
	Log          *slog.Logger
}

// A Door serves /dav/….
type Door struct {
	Options
	locks *locks
}

// New makes the door.
func New(o Options) (*Door, error) {
	if o.Files == nil || o.Locks == nil || o.Authenticate == nil {
		return nil, errors.New("webdav: Files, Locks and Authenticate are needed")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Door{Options: o, locks: newLocks(&o)}, nil
}

// The intervals at which locks are removed that no client has, and those whose time is
// over, which count for nobody meanwhile.
const (
	retractPace = 10 * time.Second
	expirePace  = 10 * time.Minute
)

// Run removes locks that are of no use to anybody, until ctx ends.
func (d *Door) Run(ctx context.Context) error {
	retract, expire := time.NewTicker(retractPace), time.NewTicker(expirePace)
	defer retract.Stop()
	defer expire.Stop()
	for {
		select {
		case <-retract.C:
			d.locks.retract(ctx)
		case <-expire.C:
			d.locks.expire(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// A request is one of a principal, for one resource.
type request struct {
	*http.Request
	door      *Door
	w         http.ResponseWriter
	who       *protocol.Principal
	at        target
	condition conditions // of the If header
}

// methods are the handlers of requests that concern a resource.
var methods = map[string]func(*request) error{
	http.MethodGet:    (*request).get,
	http.MethodHead:   (*request).get,
	http.MethodPut:    (*request).put,
	http.MethodDelete: (*request).delete,
	"MKCOL":           (*request).makeFolder,
	"COPY":            (*request).copyOrMove,
	"MOVE":            (*request).copyOrMove,
	"PROPFIND":        (*request).propfind,
	"PROPPATCH":       (*request).proppatch,
	"LOCK":            (*request).lock,
	"UNLOCK":          (*request).unlock,
}

const allowed = "OPTIONS, GET, HEAD, PUT, DELETE, MKCOL, COPY, MOVE, PROPFIND, PROPPATCH, LOCK, UNLOCK"

// ServeHTTP implements [http.Handler].
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Dav", "1, 2")
	if r.Method == http.MethodOptions { // clients find out the protocol by it before they show a credential
		w.Header().Set("Allow", allowed)
		w.Header().Set("Ms-Author-Via", "DAV")
		w.WriteHeader(http.StatusOK)
		return
	}
	q := &request{Request: r, door: d, w: w}
	if err := q.serve(); err != nil {
		q.fail(err)
	}
}

func (q *request) serve() (err error) {
	do := methods[q.Method]
	if do == nil {
		q.w.Header().Set("Allow", allowed)
		return statusError{http.StatusMethodNotAllowed, protocol.Errorf(protocol.MalformedEnvelope, "the methods are %s", allowed)}
	}
	if q.who, err = q.door.Authenticate(q.Request); err != nil {
		return err
	}
	if q.at, err = parseTarget(q.URL.Path); err != nil {
		return err
	}
	if q.condition, err = parseIf(q.Header.Get("If")); err != nil {
		return err
	}
	q.door.locks.await(q.Context(), q.condition.tokens())
	return do(q)
}
