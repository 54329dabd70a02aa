package files

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// An incoming holds an upload's description of its file.
type incoming struct {
	group, path, size, checksum, contentType string
	mtime                                    string
	base, keep                               string // of a delta
	copyOf, copyVersion                      string // of a copy
}

// UploadResult is the answer to an upload.
type UploadResult struct {
	Success bool `json:"success"`
	vfs.FileView
	Group string `json:"group_name"`
}

// upload takes a file: as a form with group_name, path and file
// (docs/vfs.md#http), or as the bare body with group_name and path in the URL.
// A bare body with base and keep holds only chunks that changed, and none at all with copy_of.
func (h *Handler) upload(w http.ResponseWriter, r *http.Request, who *protocol.Principal) error {
	done, err := h.transfer(r.Context(), who)
	if err != nil {
		return err
	}
	defer done()
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return protocol.InvalidParam("Content-Encoding", "files are taken as they are")
	}
	var in incoming
	if err := queries(r, map[string]*string{"group_name": &in.group, "path": &in.path, "size": &in.size, "checksum": &in.checksum, "mtime": &in.mtime,
		"base": &in.base, "keep": &in.keep, "copy_of": &in.copyOf, "copy_version": &in.copyVersion}); err != nil {
		return err
	}
	pacer := h.pace(w, who)
	defer pacer.stop()
	pacer.last = func(who *protocol.Principal) error {
		if in.group == "" {
			return nil // it is still to be judged
		}
		_, err := h.enter(r.Context(), who, "vfs:write", in.group)
		return err
	}
	body := pacer.body(http.MaxBytesReader(w, r.Body, h.MaxFile+roomForForm))
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var f vfs.File
	if err == nil && media == "multipart/form-data" && r.Method == http.MethodPost {
		f, err = h.uploadForm(r, who, &in, multipart.NewReader(body, params["boundary"]))
	} else {
		if in.size == "" && in.base == "" && in.copyOf == "" && r.ContentLength >= 0 {
			in.size = strconv.FormatInt(r.ContentLength, 10)
		}
		in.contentType = r.Header.Get("Content-Type")
		f, err = h.store(r, who, &in, body)
	}
	h.Tell(r, who, "vfs.put", in.group, in.path, err)
	if err != nil {
		w.Header().Set("Connection", "close") // the rest of the body is not read
		var over *http.MaxBytesError
		if errors.As(err, &over) {
			return h.tooLarge()
		}
		return err
	}
	body.end()
	w.Header().Set("Etag", etag(f))
	return succeed(w, http.StatusOK, UploadResult{true, f.View(), f.Group})
}

// roomForForm bounds a form without its file, in bytes.
const roomForForm = 64 << 10

func (h *Handler) tooLarge() error {
	return protocol.Errorf(protocol.PayloadTooLarge, "a file may have %d bytes", h.MaxFile).With("limit", h.MaxFile)
}

// bound makes a reader fail that goes on for too long.
func (h *Handler) bound(r io.Reader) io.Reader { return &bounded{r, h.MaxFile, h} }

type bounded struct {
	io.Reader
	left    int64
	handler *Handler
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, b.handler.tooLarge()
	}
	return n, err
}

// uploadForm reads a form part by part. The file goes straight to where it
// belongs if its name came before it, as it should.
func (h *Handler) uploadForm(r *http.Request, who *protocol.Principal, in *incoming, form *multipart.Reader) (vfs.File, error) {
	var spooled *os.File
	defer func() {
		if spooled != nil {
			_ = spooled.Close()
			_ = os.Remove(spooled.Name())
		}
	}()
	for range 16 {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return h.endOfForm(r, who, in, spooled)
		}
		if err != nil {
			return vfs.File{}, broken(err)
		}
		switch {
		case part.FormName() != "file":
			err = in.field(part)
		case spooled != nil:
			err = protocol.InvalidParam("file", "is there twice")
		case in.group == "" || in.path == "":
			in.contentType = part.Header.Get("Content-Type")
			spooled, err = h.spool(part)
		default:
			in.contentType = part.Header.Get("Content-Type")
			return h.store(r, who, in, &lastPart{part, form})
		}
		if err != nil {
			return vfs.File{}, err
		}
	}
	return vfs.File{}, protocol.InvalidParam("file", "the form has too many parts")
}

// A lastPart is the file of a form, after which nothing may come. It does not
// come to its end before that is known, so nothing is stored of a form that is
// refused.
type lastPart struct {
	*multipart.Part
	form *multipart.Reader
}

// Read implements [io.Reader].
func (p *lastPart) Read(b []byte) (int, error) {
	n, err := p.Part.Read(b)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	switch next, err := p.form.NextRawPart(); {
	case err == nil:
		return n, protocol.InvalidParam(trimmed(next.FormName()), "comes after the file, which must be the last part if group_name and path come before it")
	case !errors.Is(err, io.EOF):
		return n, broken(err)
	}
	return n, io.EOF
}

// endOfForm stores a file that came before its name.
func (h *Handler) endOfForm(r *http.Request, who *protocol.Principal, in *incoming, spooled *os.File) (vfs.File, error) {
	if spooled == nil {
		return vfs.File{}, protocol.InvalidParam("file", "is missing")
	}
	if _, err := spooled.Seek(0, io.SeekStart); err != nil {
		return vfs.File{}, err
	}
	return h.store(r, who, in, spooled)
}

// field takes one of the small parts of a form.
func (in *incoming) field(part *multipart.Part) error {
	text, err := io.ReadAll(io.LimitReader(part, 4097))
	if err != nil {
		return broken(err)
	}
	var into *string
	switch name := part.FormName(); name {
	case "group_name":
		into = &in.group
	case "path":
		into = &in.path
	case "size":
		into = &in.size
	case "checksum":
		into = &in.checksum
	case "mtime":
		into = &in.mtime
	default:
		return protocol.InvalidParam(trimmed(name), "is no part of an upload: group_name, path, size, checksum, mtime, file")
	}
	switch {
	case len(text) > 4096:
		return protocol.InvalidParam(part.FormName(), "is too long")
	case *into != "" && *into != string(text):
		return protocol.InvalidParam(part.FormName(), "is there twice")
	}
	*into = string(text)
	in.path = vfs.Relative(in.path)
	return nil
}

func trimmed(name string) string {
	if name = strings.ToValidUTF8(name, ""); len(name) > 64 {
		return name[:64]
	}
	return name
}

// spool keeps a file whose name is still to come.
func (h *Handler) spool(part io.Reader) (*os.File, error) {
	f, err := os.CreateTemp(h.Spool, "upload-*")
	if err != nil {
		return nil, protocol.Wrap(protocol.VFSUnavailable, err, "the file cannot be kept until its name is known: send group_name and path first")
	}
	if _, err := io.Copy(f, h.bound(part)); err != nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		return nil, broken(err)
	}
	return f, nil
}

// store puts the file.
func (h *Handler) store(r *http.Request, who *protocol.Principal, in *incoming, content io.Reader) (vfs.File, error) {
	o, err := in.options(r.Header)
	if err != nil {
		return vfs.File{}, err
	}
	if _, err := vfs.CleanPath(in.path); err != nil {
		return vfs.File{}, err
	}
	files, err := h.enter(r.Context(), who, "vfs:write", in.group)
	if err != nil {
		return vfs.File{}, err
	}
	if o.Size > h.MaxFile {
		return vfs.File{}, h.tooLarge()
	}
	f, err := h.put(r.Context(), who, files, in, h.bound(content), o)
	if known := new(protocol.Error); o.IfVersion != nil && errors.As(err, &known) && known.Code == protocol.RevisionConflict {
		return vfs.File{}, preconditionError{known}
	}
	return f, err
}

// put puts a file, or makes it of chunks that changed and of those of a version
// that the writer may read.
func (h *Handler) put(ctx context.Context, who *protocol.Principal, files vfs.Files, in *incoming, content io.Reader, o vfs.PutOptions) (vfs.File, error) {
	if in.copyOf != "" || in.copyVersion != "" {
		return h.putCopy(ctx, who, files, in, o)
	}
	if in.base == "" && in.keep == "" {
		return files.Put(ctx, in.group, in.path, content, o)
	}
	delta := vfs.Delta{}
	var err error
	if delta.Base, err = strconv.ParseUint(in.base, 10, 64); err != nil || delta.Base == 0 {
		return vfs.File{}, protocol.InvalidParam("base", "must be a version of the file")
	}
	if delta.Keep, err = vfs.ParseRuns(in.keep); err != nil {
		return vfs.File{}, err
	}
	if _, err := h.enter(ctx, who, "vfs:read", in.group); err != nil {
		return vfs.File{}, err
	}
	return vfs.PutChanged(ctx, files, in.group, in.path, delta, content, o)
}

// putCopy makes a file of a version of another one that the writer may read.
func (h *Handler) putCopy(ctx context.Context, who *protocol.Principal, files vfs.Files, in *incoming, o vfs.PutOptions) (vfs.File, error) {
	from := vfs.Source{Path: vfs.Relative(in.copyOf)}
	var err error
	switch from.Version, err = strconv.ParseUint(in.copyVersion, 10, 64); {
	case err != nil || from.Version == 0:
		return vfs.File{}, protocol.InvalidParam("copy_version", "must be a version of the file that copy_of names")
	case in.base != "" || in.keep != "":
		return vfs.File{}, protocol.InvalidParam("base", "does not go with copy_of")
	}
	readable, err := h.enter(ctx, who, "vfs:read", in.group)
	if err != nil {
		return vfs.File{}, err
	}
	content, _, err := readable.Open(ctx, in.group, from.Path, from.Version)
	if err != nil {
		return vfs.File{}, err
	}
	defer content.Close()
	return vfs.PutCopy(ctx, files, in.group, in.path, from, o)
}

func (in *incoming) options(header http.Header) (vfs.PutOptions, error) {
	o := vfs.PutOptions{Size: -1}
	if t := safeType(in.contentType); t != "application/octet-stream" && len(t) <= vfs.MaxContentType {
		o.ContentType = t
	}
	var err error
	if o.IfVersion, err = ifVersion(header); err != nil {
		return o, err
	}
	if in.size != "" {
		if o.Size, err = strconv.ParseInt(in.size, 10, 64); err != nil || o.Size < 0 {
			return o, protocol.InvalidParam("size", "must be a number of bytes")
		}
	}
	if in.mtime != "" {
		if o.Mtime, err = strconv.ParseInt(in.mtime, 10, 64); err != nil || o.Mtime < 0 {
			return o, protocol.InvalidParam("mtime", "must be Unix milliseconds")
		}
	}
	o.SHA256, err = announcedSum(in.checksum, header)
	return o, err
}

// announcedSum is the checksum of the file: a parameter, or one of the headers
// X-Checksum-SHA256 (hexadecimal) and Repr-Digest (RFC 9530).
func announcedSum(text string, h http.Header) (*vfs.Sum, error) {
	if text == "" {
		text = h.Get("X-Checksum-Sha256")
	}
	if text != "" {
		sum, err := vfs.ParseSum(text)
		return &sum, err
	}
	for digest := range strings.SplitSeq(h.Get("Repr-Digest"), ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(digest), "sha-256=:")
		if !ok {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(value, ":"))
		if err != nil || len(raw) != len(vfs.Sum{}) {
			return nil, protocol.InvalidParam("Repr-Digest", "has no SHA-256")
		}
		sum := vfs.Sum(raw)
		return &sum, nil
	}
	return nil, nil
}

func base64Sum(sum vfs.Sum) string { return base64.StdEncoding.EncodeToString(sum[:]) }

// broken is the error for a body that cannot be read.
func broken(err error) error {
	if known := new(protocol.Error); errors.As(err, &known) {
		return err
	}
	var over *http.MaxBytesError
	if errors.As(err, &over) || errors.Is(err, context.Canceled) {
		return err
	}
	return protocol.Wrap(protocol.SyncFailed, err, "the upload broke off, or is no form")
}
