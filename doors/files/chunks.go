package files

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// chunkHeader tells the size of the chunks whose sums follow.
const chunkHeader = "X-Chunk-Size"

// chunks sends the SHA-256 of every chunk of a version, 32 bytes each: a client with
// another version learns which chunks to fetch, or to send.
func (h *Handler) chunks(w http.ResponseWriter, r *http.Request, who *protocol.Principal) error {
	done, err := h.transfer(r.Context(), who)
	if err != nil {
		return err
	}
	defer done()
	var group, path, version string
	if err := queries(r, map[string]*string{"group_name": &group, "path": &path, "version": &version}); err != nil {
		return err
	}
	number, err := optionalNumber("version", version)
	if err != nil {
		return err
	}
	files, err := h.enter(r.Context(), who, "vfs:read", group)
	if err != nil {
		return err
	}
	content, f, err := files.Open(r.Context(), group, path, number)
	if err != nil {
		return err
	}
	defer content.Close()
	count := (f.Size + vfs.ChunkSize - 1) / vfs.ChunkSize
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Length", strconv.FormatInt(count*int64(len(vfs.Sum{})), 10))
	header.Set("Cache-Control", "private, no-cache")
	header.Set("X-File-Version", strconv.FormatUint(f.Version, 10))
	header.Set(chunkHeader, strconv.Itoa(vfs.ChunkSize))
	known, err := knownChunks(r.Context(), files, group, path, f)
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	pacer := h.pace(w, who)
	defer pacer.stop()
	out := pacedWriter{w, pacer}
	// The sums are sent a few chunks at a time, so that the client sees progress.
	for ; count > 0; count -= chunksAtOnce {
		sums := known
		if sums == nil {
			var hasher vfs.ChunkHasher
			if _, err := io.CopyN(&hasher, content, min(count, chunksAtOnce)*vfs.ChunkSize); err != nil && err != io.EOF {
				h.explain(r, err)
				panic(http.ErrAbortHandler) // the answer cannot be told apart from a whole one otherwise
			}
			sums = hasher.Sums()
		} else {
			n := min(len(known), chunksAtOnce)
			sums, known = known[:n], known[n:]
		}
		for _, sum := range sums {
			if _, err := out.Write(sum[:]); err != nil {
				return nil // the client is gone
			}
		}
		_ = http.NewResponseController(w).Flush()
	}
	return nil
}

// knownChunks are the sums of a version's chunks, if the VFS need not read it to
// tell them; nil if not.
func knownChunks(ctx context.Context, files vfs.Files, group, path string, f vfs.File) ([]vfs.Sum, error) {
	c, ok := files.(vfs.Chunked)
	if !ok || f.Size == 0 {
		return nil, nil
	}
	sums, err := c.Chunks(ctx, group, path, f.Version)
	if errors.Is(err, errors.ErrUnsupported) || err == nil && int64(len(sums)) != (f.Size+vfs.ChunkSize-1)/vfs.ChunkSize {
		return nil, nil
	}
	return sums, err
}

// chunksAtOnce is the number of sums that are computed before they are sent.
const chunksAtOnce = 256
