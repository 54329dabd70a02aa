package transfer

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/vfs"
)

// Get are the parameters that ask for chunks of a file. Nothing is remembered
// between two requests: a client asks for the next chunks, or for some again.
type Get struct {
	Path      string `json:"path,omitempty"`
	ID        string `json:"file_id,omitempty"`
	Version   uint64 `json:"version,omitempty"`    // 0 is the current one; name it when going on
	ChunkSize int    `json:"chunk_size,omitempty"` // bytes, default 64 KiB
	From      int    `json:"from,omitempty"`       // first chunk
	Count     int    `json:"count,omitempty"`      // chunks, default as many as fit in 4 MiB
}

const (
	// maxWindow bounds the bytes that one request asks for.
	maxWindow = 4 << 20
	// sendTimeout bounds the answer to one request.
	sendTimeout = time.Minute
)

// download sends chunks.
func (d *Door) download(j job) {
	var g Get
	err := decode(j.payload, &g)
	switch {
	case err != nil:
	case j.rest != "":
		err = protocol.InvalidParam("topic", "must end with the transfer's id")
	default:
		err = d.checkGet(&g)
	}
	if err != nil {
		d.refuse(j, "", err)
		return
	}
	select {
	case d.sends <- struct{}{}:
	default:
		d.refuse(j, "", protocol.BusyFor(time.Second, "too many downloads are under way"))
		return
	}
	d.wait.Go(func() {
		defer func() { <-d.sends }()
		ctx, cancel := context.WithTimeout(d.ctx, sendTimeout)
		defer cancel()
		ctx, end := grant.While(ctx, d.opts.Grants, j.grant)
		defer end()
		if err := d.send(ctx, j, &g); err != nil {
			d.refuse(j, "", err)
		}
	})
}

func (d *Door) checkGet(g *Get) error {
	if g.ChunkSize == 0 {
		g.ChunkSize = min(defaultChunk, d.opts.MaxChunk)
	}
	g.Path = vfs.Relative(g.Path)
	switch {
	case (g.Path == "") == (g.ID == ""):
		return protocol.InvalidParam("path", "name the file by path or by file_id")
	case g.ChunkSize < 64 || g.ChunkSize > d.opts.MaxChunk:
		return protocol.InvalidParam("chunk_size", fmt.Sprintf("must be within 64 and %d", d.opts.MaxChunk))
	case g.From < 0 || g.Count < 0:
		return protocol.InvalidParam("from", "may not be negative")
	}
	most := min(maxWindow/g.ChunkSize, maxJobs)
	if g.Count == 0 {
		g.Count = most
	}
	g.Count = min(g.Count, most)
	return nil
}

func (d *Door) send(ctx context.Context, j job, g *Get) error {
	files, err := d.enter(ctx, j, false)
	if err != nil {
		return err
	}
	path := g.Path
	if g.ID != "" {
		f, err := vfs.Find(ctx, files, j.key.group, g.ID, "")
		if err != nil {
			return err
		}
		path = f.Path
	}
	r, f, err := files.Open(ctx, j.key.group, path, g.Version)
	if err != nil {
		return err
	}
	defer r.Close()
	chunks := (f.Size + int64(g.ChunkSize) - 1) / int64(g.ChunkSize)
	if chunks > 1<<31-1 || int64(g.From) > chunks {
		return protocol.InvalidParam("from", fmt.Sprintf("the file has %d chunks", chunks))
	}
	view := f.View()
	d.tell(j, Status{State: Sending, File: &view, ChunkSize: g.ChunkSize, Chunks: int(chunks), From: &g.From})
	if _, err := r.Seek(int64(g.From)*int64(g.ChunkSize), io.SeekStart); err != nil {
		return err
	}
	end := min(int64(g.From+g.Count), chunks)
	for n := int64(g.From); n < end; n++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		data := make([]byte, min(int64(g.ChunkSize), f.Size-n*int64(g.ChunkSize)))
		if _, err := io.ReadFull(r, data); err != nil {
			return err
		}
		leaf := fmt.Sprintf("data/%s/%d/%08x", j.key.id, n, crc32.ChecksumIEEE(data))
		message := protocol.Message{Topic: d.opts.Topics.VFS(protocol.GroupName(j.key.group), leaf), Payload: data, QoS: 1}
		if _, err := d.opts.Publish(protocol.Only(j.key.owner), message); err != nil {
			return err
		}
	}
	status := Status{State: Sent, Chunks: int(chunks)}
	if end < chunks {
		next := int(end)
		status.Next = &next
	}
	d.tell(j, status)
	return nil
}
