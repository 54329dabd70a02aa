// Package remote is the client of a foreign Skill-VFS, of the HTTP interface that doors/files
// serves.
//
// Nothing that comes back is trusted: answers are bounded in size and time,
// contents are compared with their checksums, and an answer that cannot be
// understood counts as an unreachable VFS (4001).
package remote

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Options say where the VFS is and how to talk to it. URL is needed.
type Options struct {
	URL        string // of its interface, https://HOST/vfs
	Credential string // sent as a bearer token
	// Inside is the group over there that everything goes into, each group
	// here in a folder of its own; "" for the same groups there as here.
	Inside string
	TLS    *tls.Config // nil for the system's roots
	// PartsFrom is the size from which [Client.PutFile] sends files in parts, default
	// [PartsFrom].
	PartsFrom int64
	// Alone says that nobody else uploads with the credential, one file after the other: an
	// unfinished upload of another content is given up before one begins.
	Alone bool
	// Control is asked before a connection is made, see net.Dialer.
	Control func(network, address string, c syscall.RawConn) error
	// Patience is the time that an answer, or the next piece of one, may take;
	// default 20 s.
	Patience time.Duration
}

// A Client are the files of a remote VFS. It implements [vfs.Files],
// [vfs.Batcher], [vfs.Chunked], [vfs.Reviser], [vfs.Snapshots], [vfs.Finder] and
// [vfs.Meter].
type Client struct {
	Options
	base      *url.URL
	http      *http.Client
	transport *http.Transport
	pause     time.Duration // before an upload goes on, at first
}

// New makes a client. It connects when it is first used.
func New(o Options) (*Client, error) {
	base, err := url.Parse(strings.TrimSuffix(o.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, protocol.InvalidParam("vfs_url", "must be an http or https URL")
	}
	if o.Inside != "" {
		if err := vfs.CheckGroup(o.Inside); err != nil {
			return nil, err
		}
	}
	if o.Patience <= 0 {
		o.Patience = 20 * time.Second
	}
	if o.PartsFrom <= 0 {
		o.PartsFrom = PartsFrom
	}
	dialer := &net.Dialer{Timeout: min(5*time.Second, o.Patience), Control: o.Control}
	transport := &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    min(5*time.Second, o.Patience),
		ResponseHeaderTimeout:  o.Patience,
		MaxIdleConnsPerHost:    8,
		MaxConnsPerHost:        32,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 32 << 10,
		DisableCompression:     true,
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a credential is for the VFS that was named
	}}
	return &Client{Options: o, base: base, http: client, transport: transport, pause: time.Second}, nil
}

// Close ends the connections that are not in use.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// there is the place of a file at the VFS.
func (c *Client) there(group, path string) (string, string) {
	if c.Inside == "" {
		return group, path
	}
	return c.Inside, folderOf(group) + path
}

func folderOf(group string) string { return vfs.MirrorFolder(protocol.CapID(group)) + "/" }

// here is the local path of a file at the VFS.
func (c *Client) here(group, path string) (string, bool) {
	if c.Inside == "" {
		return path, true
	}
	return strings.CutPrefix(path, folderOf(group))
}

// check refuses names that cannot be, without asking the VFS.
func check(group, path string) error {
	if err := vfs.CheckGroup(group); err != nil {
		return err
	}
	_, err := vfs.CleanPath(path)
	return err
}

// request makes a request about a file, or about a group.
func (c *Client) request(ctx context.Context, method, what string, query url.Values, body io.Reader) (*http.Request, error) {
	u := *c.base
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + what
	u.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, unavailable(err)
	}
	if c.Credential != "" {
		r.Header.Set("Authorization", "Bearer "+c.Credential)
	}
	return r, nil
}

// attempts is the number of times that a question is asked that changes nothing, when the
// connection fails.
const attempts = 2

// ask sends a question that changes nothing, and may be asked again.
func (c *Client) ask(ctx context.Context, method, what string, query url.Values) (*http.Response, error) {
	var last error
	for range attempts {
		r, err := c.request(ctx, method, what, query, nil)
		if err != nil {
			return nil, err
		}
		response, err := c.http.Do(r)
		if err == nil {
			return response, nil
		}
		if last = unavailable(err); ctx.Err() != nil || !gone(err) {
			break
		}
	}
	return nil, last
}

// gone reports whether a connection ended instead of an answer: one that had
// waited, perhaps, for too long.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func unavailable(cause error) error {
	return protocol.Wrap(protocol.VFSUnavailable, cause, "the remote VFS cannot be reached")
}

// strange is the error for an answer that makes no sense.
func strange(what string) error {
	return protocol.Errorf(protocol.VFSUnavailable, "the remote VFS answers strangely: %s", what)
}

// maxAnswer bounds an answer that is not a file, in bytes.
const maxAnswer = 8 << 20

// decode reads an answer, which is JSON or an error.
func (c *Client) decode(ctx context.Context, response *http.Response, into any) error {
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(c.hurry(ctx, response.Body), maxAnswer+1))
	switch {
	case err != nil:
		return unavailable(err)
	case len(body) > maxAnswer:
		return strange("more than 8 MiB of it")
	case response.StatusCode/100 != 2:
		return refusal(response.StatusCode, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return strange("no JSON")
	}
	return nil
}

// refusal is the error in an answer.
func refusal(status int, body []byte) error {
	var answer struct {
		Error *protocol.Error `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err == nil && answer.Error != nil && answer.Error.Code != "" {
		return translate(answer.Error)
	}
	switch status {
	case http.StatusNotFound:
		return protocol.Errorf(protocol.FileNotFound, "the remote VFS has no such file")
	case http.StatusUnauthorized, http.StatusForbidden:
		return protocol.Errorf(protocol.VFSPermission, "the remote VFS does not permit it")
	case http.StatusInsufficientStorage:
		return vfs.NoRoom("the remote VFS is full")
	case http.StatusPreconditionFailed:
		return protocol.Errorf(protocol.RevisionConflict, "the remote VFS has another version")
	}
	return protocol.Errorf(protocol.VFSUnavailable, "the remote VFS answers with status %d", status)
}

// translate makes an error of the remote VFS one of [vfs.Files].
func translate(e *protocol.Error) error {
	if len(e.Message) > 300 {
		e.Message = strings.ToValidUTF8(e.Message[:300], "") + "…"
	}
	switch e.Code {
	case protocol.VFSUnavailable, protocol.SyncFailed, protocol.FileNotFound, protocol.VFSPermission, protocol.NoSpace,
		protocol.AlreadyExists, protocol.RevisionConflict, protocol.InvalidParameter, protocol.PayloadTooLarge:
		return e
	case protocol.NotAuthenticated, protocol.CredentialInvalid, protocol.PermissionDenied:
		return protocol.Errorf(protocol.VFSPermission, "the remote VFS does not permit it: %s", e.Message)
	case protocol.NotFound:
		return strange(e.Message)
	}
	return protocol.Errorf(protocol.VFSUnavailable, "the remote VFS fails: %s", e.Message)
}

// localize puts the paths of an error as they are here.
func (c *Client) localize(group string, err error) error {
	e := new(protocol.Error)
	if c.Inside == "" || !errors.As(err, &e) {
		return err
	}
	for _, name := range []string{"path", "twin"} {
		if path, ok := e.Details[name].(string); ok {
			if here, ok := c.here(group, path); ok {
				e.Details[name] = here
				e.Message = strings.ReplaceAll(e.Message, path, here)
			}
		}
	}
	return e
}

// file checks what the VFS says about a file.
func (c *Client) file(group string, v vfs.FileView) (vfs.File, error) {
	path, ok := c.here(group, v.Path)
	if _, err := vfs.CleanPath(path); !ok || err != nil || v.Version == 0 || v.Size < 0 || v.ID == "" || len(v.ID) > 256 {
		return vfs.File{}, strange("an impossible file")
	}
	f := vfs.File{
		ID: v.ID, Group: group, Path: path, Version: v.Version, Size: v.Size,
		Modified: time.UnixMilli(v.Modified).UTC(), Deleted: v.Deleted, ContentType: v.ContentType,
		Mtime: max(0, v.Mtime),
	}
	if len(f.ContentType) > vfs.MaxContentType {
		f.ContentType = ""
	}
	if !v.Deleted {
		sum, err := vfs.ParseSum(v.Checksum)
		if err != nil {
			return vfs.File{}, strange("a file without a checksum")
		}
		f.SHA256 = sum
	}
	return f, nil
}

// described reads what the headers of a download say about the file.
func (c *Client) described(group, path string, h http.Header, size int64) (vfs.File, error) {
	version, err := strconv.ParseUint(h.Get("X-File-Version"), 10, 64)
	if err != nil {
		return vfs.File{}, strange("a file without a version")
	}
	modified, _ := http.ParseTime(h.Get("Last-Modified"))
	mtime, _ := strconv.ParseInt(h.Get("X-File-Mtime"), 10, 64)
	_, there := c.there(group, path)
	v := vfs.FileView{
		Mtime: mtime,
		ID:    h.Get("X-File-Id"), Path: there, Version: version, Size: size, Modified: modified.UnixMilli(),
		Checksum: h.Get("X-Checksum-Sha256"), ContentType: h.Get("Content-Type"),
	}
	if v.ContentType == "application/octet-stream" {
		v.ContentType = ""
	}
	return c.file(group, v)
}

// hurry makes reads of an answer fail that take too long.
func (c *Client) hurry(ctx context.Context, body io.ReadCloser) io.Reader {
	return &hurried{ctx: ctx, body: body, patience: c.Patience}
}

type hurried struct {
	ctx      context.Context
	body     io.ReadCloser
	patience time.Duration
}

// Read implements [io.Reader].
func (h *hurried) Read(p []byte) (int, error) {
	if h.ctx.Err() != nil {
		return 0, unavailable(h.ctx.Err())
	}
	late := time.AfterFunc(h.patience, func() { _ = h.body.Close() })
	n, err := h.body.Read(p)
	if !late.Stop() && err == nil {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = unavailable(err)
	}
	return n, err
}
