package app

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/aibridge/aibridge/doors/files"
	"github.com/aibridge/aibridge/doors/files/s3"
	"github.com/aibridge/aibridge/doors/files/webdav"
	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// mountFileDoors serves files by the protocols of other programs, as far as they are
// on. Each request counts as a command. Cookies of the console are no credential
// here: a credential that browsers send by themselves must not reach files.
func mountFileDoors(s *state, d *domains, handler *files.Handler, mounts map[string]http.Handler) error {
	settings := &s.config.Doors
	if settings.WebDAV.On {
		door, err := webdav.New(webdav.Options{
			Files: handler, Locks: d.davLocks, CatchUp: d.relay.catchUp(), Log: s.log,
			Authenticate: func(r *http.Request) (*protocol.Principal, error) {
				who, err := d.identities.authenticator.Basic(r)
				return admitted(s, r, who, err)
			},
		})
		if err != nil {
			return err
		}
		s.life.Run("locks of WebDAV", door.Run)
		mounts[webdav.Path], mounts[webdav.Path+"/"] = door, door
	}
	if !settings.S3.On {
		return nil
	}
	door, err := s3.New(s3.Options{
		Files: handler,
		Authenticate: func(r *http.Request, access string, check func(string) bool) (*protocol.Principal, error) {
			who, err := d.identities.authenticator.Signed(r, access, check)
			return admitted(s, r, who, err)
		},
		Anonymous: func(r *http.Request) (*protocol.Principal, error) {
			who, err := d.identities.authenticator.Request(r)
			return admitted(s, r, who, err)
		},
		Spool: d.files.incoming,
		Room:  s.disk.Beyond,
	})
	if err != nil {
		return err
	}
	mounts[s3.Path], mounts[s3.Path+"/"] = door, door
	s.life.Run("uploads in parts", door.Run)
	return nil
}

// admitted is the principal of a request, if it may send one more. The connection
// takes a place of the principal's from then on.
func admitted(s *state, r *http.Request, who *protocol.Principal, err error) (*protocol.Principal, error) {
	if err != nil {
		return nil, err
	}
	if err := gate.FromContext(r.Context()).Known(who); err != nil {
		return nil, err
	}
	if limited := s.quotas.Admit(who, 0); limited != nil {
		return nil, limited
	}
	return who, nil
}

// recordDeeds records changes of files over HTTP, as commands are.
func recordDeeds(s *state) func(files.Deed) {
	return func(d files.Deed) {
		from, _ := netip.ParseAddrPort(d.Request.RemoteAddr) // the zero address says that it is not known
		entry := audit.Entry{Event: d.Name, Code: audit.OK, Resource: "vfs/" + d.Group, Door: "http", Address: from.Addr()}
		if d.Path != "" {
			entry.Details = map[string]string{"path": d.Path}
		}
		if d.Err != nil {
			e := protocol.AsError(d.Err)
			entry.Code, entry.Reason = string(e.Code), e.Message
		}
		s.audit.Record(context.WithoutCancel(d.Request.Context()), entry.By(d.Who))
	}
}
