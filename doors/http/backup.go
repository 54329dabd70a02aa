package http

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// backupPiece is the part of an archive that is sent at once; the client has a while
// to take each piece.
const backupPiece = 256 << 10

// backup makes an archive for an administrator.
func (a *API) backup(w http.ResponseWriter, r *http.Request) {
	a.download(w, r, archiveBody{media: "application/gzip", name: "aibridge-backup.tar.gz"}, func(ctx context.Context, who *protocol.Principal, to io.Writer) error {
		contents := true
		if text := r.URL.Query().Get("contents"); text != "" {
			var err error
			if contents, err = strconv.ParseBool(text); err != nil {
				return protocol.Errorf(protocol.InvalidParameter, "contents: %q is neither true nor false", text).With("param_name", "contents")
			}
		}
		return a.Backup(ctx, who, !contents, to)
	})
}

// exportAudit makes a file of the audit trail for an administrator.
func (a *API) exportAudit(w http.ResponseWriter, r *http.Request) {
	a.download(w, r, archiveBody{media: "application/jsonl", name: "aibridge-audit.jsonl"}, a.ExportAudit)
}

// download sends a file while it is made. A failure after the first piece breaks the
// connection, so that the client does not take half a file for a whole one; the
// file says so too.
func (a *API) download(w http.ResponseWriter, r *http.Request, body archiveBody, write func(context.Context, *protocol.Principal, io.Writer) error) {
	who, no := a.principal(r)
	if no != nil {
		writeErrorStatus(w, no.status, no.err)
		return
	}
	ctx, done := grant.While(r.Context(), a.Grants, grant.Of(who))
	defer done()
	body.w = w
	pieces := bufio.NewWriterSize(&body, backupPiece)
	err := write(ctx, who, pieces)
	if err == nil {
		err = pieces.Flush()
	}
	switch {
	case err == nil:
	case body.begun:
		a.Log.WarnContext(r.Context(), "a file was broken off while it was made", "file", body.name, "principal", who.ID, "error", errors.Unwrap(err))
		panic(http.ErrAbortHandler)
	default:
		writeError(w, protocol.AsError(err))
	}
}

// An archiveBody is the body of an answer with a file.
type archiveBody struct {
	w     http.ResponseWriter
	media string
	name  string
	begun bool
}

// Write implements [io.Writer].
func (b *archiveBody) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.w.Header().Set("Content-Type", b.media)
		b.w.Header().Set("Content-Disposition", `attachment; filename="`+b.name+`"`)
	}
	boundWrite(b.w)
	return b.w.Write(p)
}
