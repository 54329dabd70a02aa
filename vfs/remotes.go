package vfs

import (
	"context"
	"io"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Remote is a foreign VFS, to which the bridge is a client.
type Remote struct {
	Space protocol.SpaceID `json:"space"`
	ID    protocol.VFSID   `json:"vfs_id"`
	URL   string           `json:"vfs_url"`
	// Group is the group whose files the remote keeps, "" for every group without a
	// VFS of its own.
	Group string `json:"group_name,omitempty"`
	// Inside is the remote's group that everything goes into, below a folder for
	// each group here; "" if groups have the same names here and there.
	Inside       string         `json:"remote_group,omitempty"`
	Capabilities []string       `json:"capabilities,omitempty"`
	Credential   []byte         `json:"credential,omitempty"` // sealed
	Owner        protocol.Party `json:"owner"`
	Since        int64          `json:"since"` // Unix ms
}

// KeptFor is the party whose budget of records the remote uses.
func (r *Remote) KeptFor() protocol.Party { return r.Owner }

func remoteKey(space protocol.SpaceID, id protocol.VFSID) string {
	return string(space) + "/" + string(id)
}

// LocalID is the id of the bridge's own VFS.
const LocalID protocol.VFSID = "local"

// where finds the files of a group: at a VFS registered for it, at one that is
// registered for all, or in the bridge's own store.
func (s *Service) where(space protocol.SpaceID, group string) (Files, error) {
	if r := s.remoteOf(space, group); r != nil {
		return s.client(r)
	}
	return s.opts.Store.Space(space), nil
}

// remoteOf is the remote VFS that keeps a group, nil for the bridge's own.
func (s *Service) remoteOf(space protocol.SpaceID, group string) *Remote {
	var found *Remote
	for _, r := range s.opts.Remotes.All() {
		if r.Space != space || r.Group != "" && r.Group != group {
			continue
		}
		if found == nil || better(r, found) {
			found = r
		}
	}
	return found
}

// better reports whether a remote serves a group rather than another one that
// could: the one for just this group, the older one.
func better(r, than *Remote) bool {
	if (r.Group != "") != (than.Group != "") {
		return r.Group != ""
	}
	return r.Since < than.Since
}

// client returns the client of a remote, the same one until the registration
// changes.
func (s *Service) client(r *Remote) (Files, error) {
	key := remoteKey(r.Space, r.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.clients[key]; ok && c.of == r {
		return c.files, nil
	}
	credential, err := s.unseal(r)
	if err != nil {
		return nil, err
	}
	files, err := s.opts.Dial(*r, credential)
	if err != nil {
		return nil, err
	}
	s.drop(key)
	s.clients[key] = client{r, files}
	return files, nil
}

// drop forgets a client. The service is locked.
func (s *Service) drop(key string) {
	if closer, ok := s.clients[key].files.(io.Closer); ok {
		_ = closer.Close()
	}
	delete(s.clients, key)
}

// Close ends the connections to remote VFSs.
func (s *Service) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.clients {
		s.drop(key)
	}
	return nil
}

func (s *Service) seal(r *Remote, credential string) (err error) {
	if credential == "" {
		return nil
	}
	if s.opts.Sealer == nil {
		return protocol.Errorf(protocol.InvalidState, "this bridge cannot keep credentials")
	}
	r.Credential, err = s.opts.Sealer.Seal([]byte(credential), sealPurpose(r))
	return err
}

func (s *Service) unseal(r *Remote) (string, error) {
	if len(r.Credential) == 0 {
		return "", nil
	}
	if s.opts.Sealer == nil {
		return "", protocol.Errorf(protocol.VFSUnavailable, "the credential of VFS %q cannot be read", r.ID)
	}
	plain, err := s.opts.Sealer.Open(r.Credential, sealPurpose(r))
	if err != nil {
		return "", protocol.Wrap(protocol.VFSUnavailable, err, "the credential of the VFS cannot be read")
	}
	return string(plain), nil
}

// sealPurpose binds a credential to the URL it is sent to, lest it be sent
// elsewhere.
func sealPurpose(r *Remote) string {
	return "vfs\x00" + string(r.Space) + "\x00" + string(r.ID) + "\x00" + r.URL
}

// healthTimeout bounds the check whether a VFS can be reached.
const healthTimeout = 5 * time.Second

// measure asks files how much room there is, which also tells whether they can
// be reached.
func measure(ctx context.Context, files Files) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if m, ok := files.(Meter); ok {
		return m.Usage(ctx)
	}
	return Usage{}, nil
}

func (m mirror) files() (Files, error) { return m.service.where(m.space, MirrorGroup) }

// Stat implements [Files].
func (m mirror) Stat(ctx context.Context, group, path string) (File, error) {
	files, err := m.files()
	if err != nil {
		return File{}, err
	}
	return files.Stat(ctx, group, path)
}

// Open implements [Files].
func (m mirror) Open(ctx context.Context, group, path string, version uint64) (io.ReadSeekCloser, File, error) {
	files, err := m.files()
	if err != nil {
		return nil, File{}, err
	}
	return files.Open(ctx, group, path, version)
}

// Put implements [Files].
func (m mirror) Put(ctx context.Context, group, path string, r io.Reader, o PutOptions) (File, error) {
	files, err := m.files()
	if err != nil {
		return File{}, err
	}
	return files.Put(ctx, group, path, r, o)
}

// PutBatch implements [Batcher].
func (m mirror) PutBatch(ctx context.Context, group string, batch []Content) ([]Result, error) {
	files, err := m.files()
	if err != nil {
		return nil, err
	}
	return PutAll(ctx, files, group, batch)
}

// GetBatch implements [BatchGetter].
func (m mirror) GetBatch(ctx context.Context, group string, paths []string) ([]Whole, error) {
	files, err := m.files()
	if err != nil {
		return nil, err
	}
	return GetAll(ctx, files, group, paths)
}

// Delete implements [Files].
func (m mirror) Delete(ctx context.Context, group, path string, ifVersion uint64) (File, error) {
	files, err := m.files()
	if err != nil {
		return File{}, err
	}
	return files.Delete(ctx, group, path, ifVersion)
}

// List implements [Files].
func (m mirror) List(ctx context.Context, group, prefix, cursor string, limit int, deleted bool) ([]File, string, error) {
	files, err := m.files()
	if err != nil {
		return nil, "", err
	}
	return files.List(ctx, group, prefix, cursor, limit, deleted)
}

// Snapshot implements [Snapshots].
func (m mirror) Snapshot(ctx context.Context, group string) (uint64, error) {
	s, err := m.snapshots()
	if err != nil {
		return 0, err
	}
	return s.Snapshot(ctx, group)
}

// ListAt implements [Snapshots].
func (m mirror) ListAt(ctx context.Context, group, prefix string, snapshot uint64, cursor string, limit int) ([]File, string, error) {
	s, err := m.snapshots()
	if err != nil {
		return nil, "", err
	}
	return s.ListAt(ctx, group, prefix, snapshot, cursor, limit)
}

func (m mirror) snapshots() (Snapshots, error) {
	files, err := m.files()
	if err != nil {
		return nil, err
	}
	s, ok := files.(Snapshots)
	if !ok {
		return nil, protocol.Errorf(protocol.SyncFailed, "the VFS keeps no snapshots")
	}
	return s, nil
}

// Usage implements [Meter].
func (m mirror) Usage(ctx context.Context) (Usage, error) {
	files, err := m.files()
	if err != nil {
		return Usage{}, err
	}
	return measure(ctx, files)
}
