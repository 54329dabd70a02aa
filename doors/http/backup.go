package http

import (
	"bufio"
	"errors"
	"net/http"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// backupPiece is how much of an archive is sent at once; the client has a while
// to take each piece.
const backupPiece = 256 << 10

// backup makes an archive for an administrator, and sends it while it is made.
// A failure after the first piece breaks the connection, so that nobody
// takes half an archive for a whole one; the archive says so too.
func (a *API) backup(w http.ResponseWriter, r *http.Request) {
	who, no := a.principal(r)
	if no != nil {
		writeErrorStatus(w, no.status, no.err)
		return
	}
	contents := true
	if text := r.URL.Query().Get("contents"); text != "" {
		var err error
		if contents, err = strconv.ParseBool(text); err != nil {
			writeError(w, protocol.Errorf(protocol.InvalidParameter, "contents: %q is neither true nor false", text).With("param_name", "contents"))
			return
		}
	}
	ctx, done := grant.While(r.Context(), a.Grants, grant.Of(who))
	defer done()
	out := &archiveBody{w: w}
	pieces := bufio.NewWriterSize(out, backupPiece)
	err := a.Backup(ctx, who, !contents, pieces)
	if err == nil {
		err = pieces.Flush()
	}
	switch {
	case err == nil:
	case out.begun:
		a.Log.WarnContext(r.Context(), "a backup was broken off", "principal", who.ID, "error", errors.Unwrap(err))
		panic(http.ErrAbortHandler)
	default:
		writeError(w, protocol.AsError(err))
	}
}

// An archiveBody is the body of an answer with an archive.
type archiveBody struct {
	w     http.ResponseWriter
	begun bool
}

// Write implements [io.Writer].
func (b *archiveBody) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.w.Header().Set("Content-Type", "application/gzip")
		b.w.Header().Set("Content-Disposition", `attachment; filename="aibridge-backup.tar.gz"`)
	}
	boundWrite(b.w)
	return b.w.Write(p)
}
