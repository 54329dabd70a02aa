package store

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// restoring is the key in a stream's metadata from the first change of a restore to
// the last.
const restoring = "aibridge-restoring"

// restoreBytes bounds a batch of a restore; it is closed above that.
const restoreBytes = 4 << 20

// Restore replaces the contents of the store by an archive that [Store.Backup] wrote, and
// returns its manifest. The archive is checked from its first byte to its last before
// anything is changed. A store that holds something is refused with 3006 unless force is
// true, and so is one that a bridge follows, this one included: it must not be loaded. If
// the restore breaks off midway, the store refuses to load until a restore succeeds.
//
// Files go to the places of their names; an archive with files of others is
// refused. An audit trail that has entries is kept as it is, force or not: a
// restore is to be recorded in it too.
//
// Revisions of restored values are above those in the archive and those that the store
// had, so that no client takes one thing for another.
func (s *Store) Restore(ctx context.Context, r io.Reader, force bool, places map[string]FileTarget) (*Manifest, error) {
	file, discard, err := seekable(r)
	if err != nil {
		return nil, fmt.Errorf("store: restore: %w", err)
	}
	defer discard()
	files := &fileReader{places: places, met: make(map[string]bool), dry: true}
	manifest, err := readArchive(file, func(section string, line []byte) error { return s.checkLine(ctx, files, section, line) })
	if err = errors.Join(err, files.end()); err != nil {
		return nil, fmt.Errorf("store: restore: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("store: restore: %w", err)
	}
	registry, err := s.mayRestore(ctx, force)
	if err != nil {
		return nil, err
	}
	files.dry = false
	if _, wreck := registry.Config.Metadata[restoring]; !force && !wreck {
		if err := files.mayReplace(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.replace(ctx, file, registry, manifest, files); err != nil {
		return nil, fmt.Errorf("store: restore, begun but not completed: %w", err)
	}
	return manifest, nil
}

// seekable returns r, or a copy of it in a temporary file if r can be read
// only once.
func seekable(r io.Reader) (_ io.ReadSeeker, discard func(), err error) {
	if s, ok := r.(io.ReadSeeker); ok {
		if _, err := s.Seek(0, io.SeekCurrent); err == nil {
			return s, func() {}, nil
		}
	}
	f, err := os.CreateTemp("", "aibridge-restore-*")
	if err != nil {
		return nil, nil, err
	}
	discard = func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
	if _, err = io.Copy(f, r); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		discard()
		return nil, nil, err
	}
	return f, discard, nil
}

// checkLine fails if a line of an archive could not be restored.
func (s *Store) checkLine(ctx context.Context, files *fileReader, section string, line []byte) error {
	var err error
	switch section {
	case auditSection:
		_, err = parseAuditLine(line)
	case filesSection:
		err = files.line(ctx, line)
	case claimsSection:
		_, err = parseClaimLine(line)
	case valuesSection:
		_, err = parseValueLine(line)
	case entriesSection:
		_, err = parseEntryLine(line)
	default:
		_, err = s.parseRegistryLine(line)
	}
	return err
}

func (s *Store) parseRegistryLine(line []byte) (*nats.Msg, error) {
	var l registryLine
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, err
	}
	if !tableRule.MatchString(l.Table) {
		return nil, fmt.Errorf("%q cannot be a table", l.Table)
	}
	op := Op{kind: opPut, table: l.Table, key: l.Key, data: l.Record}
	if l.Deleted {
		op.kind = opDelete
	} else if _, err := openRecord(l.Record); err != nil {
		return nil, fmt.Errorf("%s %s: %w", l.Table, l.Key, err)
	}
	var err error
	if op.subject, err = s.subject(l.Table, l.Key); err != nil {
		return nil, err
	}
	return s.message(op, unguarded)
}

func parseClaimLine(line []byte) (c commands.Claim, err error) {
	var l claimLine
	if err := json.Unmarshal(line, &l); err != nil {
		return c, err
	}
	hash, err := hex.DecodeString(l.Hash)
	if err != nil || len(hash) != len(c.Hash) {
		return c, fmt.Errorf("the hash of claim %q is not one", l.RequestID)
	}
	c = commands.Claim{Principal: l.Principal, RequestID: l.RequestID, Expires: time.UnixMilli(l.Expires)}
	copy(c.Hash[:], hash)
	return c, nil
}

// mayRestore returns the state of the registry if it may be replaced.
func (s *Store) mayRestore(ctx context.Context, force bool) (*streamInfo, error) {
	registry, err := inspect(ctx, s.state, s.names.registry)
	if err != nil {
		return nil, unavailable(err)
	}
	claims, err := inspect(ctx, s.flow, s.names.claims)
	if err != nil {
		return nil, unavailable(err)
	}
	journal, err := s.journalMessages(ctx)
	if err != nil {
		return nil, err
	}
	_, wreck := registry.Config.Metadata[restoring]
	switch {
	case s.loaded.Load() || registry.State.Consumers > 0:
		return nil, protocol.Errorf(protocol.InvalidState, "a bridge works on the store: stop it first")
	case !force && !wreck && registry.State.Messages+claims.State.Messages+journal > 0:
		return nil, protocol.Errorf(protocol.InvalidState, "the store is not empty")
	}
	return registry, nil
}

// replace empties the streams and fills them from the archive.
func (s *Store) replace(ctx context.Context, archive io.Reader, registry *streamInfo, manifest *Manifest, files *fileReader) error {
	if err := s.markRestoring(ctx, registry.Config, true); err != nil {
		return err
	}
	first := max(registry.State.LastSeq, manifest.LastRevision) + 1
	if err := purge(ctx, s.state, s.names.registry, jetstream.WithPurgeSequence(first)); err != nil {
		return err
	}
	for _, stream := range []string{s.names.claims, s.names.tally} {
		if err := purge(ctx, s.flow, stream); err != nil {
			return err
		}
	}
	if err := s.forgetCluster(ctx); err != nil {
		return err
	}
	journal, err := s.emptyJournal(ctx)
	if err != nil {
		return err
	}
	if err := files.clear(ctx); err != nil {
		return err
	}
	defer files.abort()
	r := &restorer{store: s, ctx: ctx, group: s.claims.newGroup(), journal: journalRestorer{journal: journal}, trails: make(map[string]*AuditLog), files: files}
	if s.trail != nil && !s.trail.HasEntries() {
		r.local.trail = s.trail
	}
	if _, err := readArchive(archive, r.line); err != nil {
		return err
	}
	if err := errors.Join(r.flush(), r.flushClaims(), r.journal.flush(ctx), r.local.flush(), files.done(ctx)); err != nil {
		return err
	}
	return s.markRestoring(ctx, registry.Config, false)
}

// markRestoring sets or clears the mark that keeps the store from loading.
func (s *Store) markRestoring(ctx context.Context, config jetstream.StreamConfig, on bool) error {
	js, err := jetstream.New(s.state.conn)
	if err != nil {
		return err
	}
	metadata := make(map[string]string, len(config.Metadata)+1)
	for k, v := range config.Metadata {
		metadata[k] = v
	}
	delete(metadata, restoring)
	if on {
		metadata[restoring] = time.Now().UTC().Format(time.RFC3339)
	}
	config.Metadata = metadata
	_, err = js.UpdateStream(ctx, config)
	return err
}

func purge(ctx context.Context, l *connection, stream string, options ...jetstream.StreamPurgeOpt) error {
	js, err := jetstream.New(l.conn)
	if err != nil {
		return err
	}
	handle, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	return handle.Purge(ctx, options...)
}

// A restorer publishes the lines of an archive in batches.
type restorer struct {
	store *Store
	ctx   context.Context // of the one call it lives in
	batch []*nats.Msg
	bytes int
	group *group

	journal journalRestorer
	local   trailRestorer
	trails  map[string]*AuditLog // by bridge; nil for one that is kept as it is
	files   *fileReader
}

func (r *restorer) line(section string, line []byte) error {
	switch section {
	case claimsSection:
		return r.claim(line)
	case valuesSection:
		return r.journal.value(r.ctx, line)
	case entriesSection:
		return r.journal.entry(r.ctx, line)
	case auditSection:
		return r.audited(line)
	case filesSection:
		return r.files.line(r.ctx, line)
	}
	msg, err := r.store.parseRegistryLine(line)
	if err != nil {
		return err
	}
	r.batch = append(r.batch, msg)
	r.bytes += len(msg.Data)
	if len(r.batch) < maxBatch && r.bytes < restoreBytes {
		return nil
	}
	return r.flush()
}

// flush publishes the batch.
func (r *restorer) flush() error {
	if len(r.batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.store.options.LoadTimeout)
	defer cancel()
	_, err := r.store.commit(ctx, r.batch)
	r.batch, r.bytes = r.batch[:0], 0
	return err
}

func (r *restorer) claim(line []byte) error {
	claim, err := parseClaimLine(line)
	if err != nil || !claim.Expires.After(time.Now()) {
		return err
	}
	r.group.add(claim, func(record []byte) []byte { return r.store.claims.append(record, claim) })
	if len(r.group.record) < maxGroup {
		return nil
	}
	return r.flushClaims()
}

func (r *restorer) flushClaims() error {
	if r.group.claims == 0 {
		return nil
	}
	g := r.group
	r.group = r.store.claims.newGroup()
	return r.store.publishClaims(r.ctx, g)
}
