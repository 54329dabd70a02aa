package store

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// BackupOptions hold the sources of a backup besides the store, and the listeners to its
// progress.
type BackupOptions struct {
	Files []FileSource // copied last, in this order

	// Settle stores the waiting entries of the audit trails. It is called when the
	// registry, the claims and the journal are copied, and before the trails are,
	// so that these cover all of that. Optional.
	Settle func(context.Context) error

	// Progress is called for every part of the archive. Optional.
	Progress func(Progress)
}

// Progress is the progress of writing or reading an archive.
type Progress struct {
	Section string // the section being copied: registry, claims, mqtt-values, mqtt-log, audit or files
	Bytes   int64  // of the archive so far, before compression
}

// Backup writes an archive of the registry, the claims, the journal, the audit trails and
// the files of the sources, and returns its manifest. It may run while the store is used:
// the registry is copied as it was at one revision, between two atomic changes;
// everything else is copied after it, files last, so that the files that the registry refers to are
// there. All writes acknowledged before the call are in the archive. It needs little memory except
// for the journal. The store need not be loaded.
func (s *Store) Backup(ctx context.Context, w io.Writer, o BackupOptions) (*Manifest, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.run, cancel)()
	settle := func(ctx context.Context, _ *archiveWriter) error {
		if o.Settle == nil {
			return nil
		}
		return o.Settle(ctx)
	}

	zip, err := gzip.NewWriterLevel(w, gzip.BestSpeed) // calls are served meanwhile, and most contents do not get smaller
	if err != nil {
		return nil, err
	}
	archive := newArchiveWriter(zip, o.Progress)
	for _, section := range []func(context.Context, *archiveWriter) error{s.backupRegistry, s.backupClaims, s.backupJournal, settle, s.backupAudit} {
		if err := section(ctx, archive); err != nil {
			return nil, fmt.Errorf("store: back up: %w", err)
		}
	}
	if err := backupFiles(ctx, archive, o.Files); err != nil {
		return nil, fmt.Errorf("store: back up files: %w", err)
	}
	if err := errors.Join(archive.end(), zip.Close()); err != nil {
		return nil, fmt.Errorf("store: write the backup: %w", err)
	}
	return &archive.manifest, nil
}

func (s *Store) backupRegistry(ctx context.Context, archive *archiveWriter) error {
	if err := archive.begin(registrySection); err != nil {
		return err
	}
	info, err := inspect(ctx, s.state, s.names.registry)
	if err != nil {
		return err
	}
	manifest := &archive.manifest
	manifest.LastRevision = info.State.LastSeq // of a message that has expired, perhaps
	return readStream(ctx, s.state, s.names.registry, func(m message) error {
		manifest.LastRevision = max(manifest.LastRevision, m.seq)
		line, err := s.registryLine(m)
		if err != nil {
			return &integrityError{subject: m.Subject, revision: m.seq, err: err}
		}
		if !line.Deleted {
			manifest.Keys++
		}
		return archive.line(line)
	})
}

func (s *Store) registryLine(m message) (registryLine, error) {
	rest, ok := strings.CutPrefix(m.Subject, s.names.registryRoot)
	if !ok {
		return registryLine{}, errors.New("outside the bucket")
	}
	table, token, _ := strings.Cut(rest, ".")
	key, err := decodeKey(token)
	if err != nil {
		return registryLine{}, err
	}
	line := registryLine{Table: table, Key: key, Revision: m.seq}
	if isDeletion(m.Header) {
		line.Deleted = true
		return line, nil
	}
	if !json.Valid(m.Data) {
		return registryLine{}, errors.New("not JSON")
	}
	line.Record = m.Data
	return line, nil
}

func (s *Store) backupClaims(ctx context.Context, archive *archiveWriter) error {
	if err := archive.begin(claimsSection); err != nil {
		return err
	}
	return readStream(ctx, s.flow, s.names.claims, func(m message) error {
		for claim, err := range claimsOf(m.Data) {
			if err != nil {
				return &integrityError{subject: m.Subject, revision: m.seq, err: err}
			}
			archive.manifest.Claims++
			err = archive.line(claimLine{
				Principal: claim.Principal,
				RequestID: claim.RequestID,
				Hash:      hex.EncodeToString(claim.Hash[:]),
				Expires:   claim.Expires.UnixMilli(),
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
