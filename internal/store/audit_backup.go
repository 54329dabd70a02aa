package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// An auditLine is one group of a bridge's audit trail in an archive. Its entries
// are chained by hashes, which cannot be redone without the key.
type auditLine struct {
	Bridge string `json:"bridge"` // as in the stream's name
	Group  []byte `json:"group"`
}

// backupAudit copies the audit trails of all bridges of this prefix.
func (s *Store) backupAudit(ctx context.Context, archive *archiveWriter) error {
	bridges, err := s.auditedBridges(ctx)
	if err != nil || len(bridges) == 0 && s.trail == nil {
		return err
	}
	if err := archive.begin(auditSection); err != nil {
		return err
	}
	for _, bridge := range bridges {
		stream, _ := auditNames(s.options.Prefix, bridge)
		err := readStream(ctx, s.state, stream, func(m message) error {
			group := groupOf(m.Data)
			if group == nil {
				return nil // of no trail; its verification reports that
			}
			archive.manifest.Groups++
			return archive.line(auditLine{bridge, group})
		})
		if err != nil {
			return fmt.Errorf("stream %s: %w", stream, err)
		}
	}
	if s.trail == nil {
		return nil
	}
	return s.trail.Read(ctx, func(_ uint64, block []byte) error {
		archive.manifest.Groups++
		return archive.line(auditLine{s.trailOf, block})
	})
}

// A LocalTrail is the audit trail of a bridge that is kept in a log beside the
// store. It is backed up and restored with the store.
type LocalTrail interface {
	// Read calls f for every block, the oldest first.
	Read(ctx context.Context, f func(number uint64, block []byte) error) error
	// HasEntries reports whether there is anything.
	HasEntries() bool
	// Import appends a block, or groups of an earlier version's trail as one.
	Import(parts [][]byte) error
}

// UseTrail sets the place of the audit trail of a bridge. It is called before the
// store is backed up or restored.
func (s *Store) UseTrail(bridge string, t LocalTrail) { s.trailOf, s.trail = trailName(bridge), t }

// A trailRestorer fills a local trail.
type trailRestorer struct {
	trail LocalTrail // nil if it is kept as it is
	parts [][]byte
	bytes int
}

// importBytes is the part of an earlier version's trail that makes a block.
const importBytes = 256 << 10

// The first bytes of a group of an earlier version's trail, and of a block.
const (
	importedMagic = "aba1"
	blockMagic    = "abe1"
)

func (r *trailRestorer) add(block []byte) error {
	if r.trail == nil {
		return nil
	}
	whole := !bytes.HasPrefix(block, []byte(importedMagic))
	if whole || r.bytes+len(block) > importBytes {
		if err := r.flush(); err != nil {
			return err
		}
	}
	r.parts, r.bytes = append(r.parts, bytes.Clone(block)), r.bytes+len(block)
	if whole {
		return r.flush()
	}
	return nil
}

func (r *trailRestorer) flush() error {
	if len(r.parts) == 0 {
		return nil
	}
	err := r.trail.Import(r.parts)
	r.parts, r.bytes = nil, 0
	return err
}

// HasAuditLog reports whether the trail of a bridge has a stream.
func (s *Store) HasAuditLog(ctx context.Context, bridge string) (bool, error) {
	stream, _ := auditNames(s.options.Prefix, trailName(bridge))
	_, err := inspect(ctx, s.state, stream)
	switch {
	case err == nil:
		return true, nil
	case isMissing(err):
		return false, nil
	}
	return false, unavailable(err)
}

// MoveTrail takes the trail that an earlier version has kept in a stream into a
// local one, and deletes the stream once synced has returned. Taken is the number
// of groups it has already, from an attempt that broke off.
func (s *Store) MoveTrail(ctx context.Context, bridge string, to LocalTrail, taken func() (int, error), synced func() error) (moved int, err error) {
	stream, _ := auditNames(s.options.Prefix, trailName(bridge))
	if there, err := s.HasAuditLog(ctx, bridge); !there || err != nil {
		return 0, err
	}
	before, err := taken()
	if err != nil {
		return 0, err
	}
	r := trailRestorer{trail: to}
	err = readStream(ctx, s.state, stream, func(m message) error {
		if before > 0 {
			before--
			return nil
		}
		moved++
		group := groupOf(m.Data)
		if !bytes.HasPrefix(group, []byte(importedMagic)) && !bytes.HasPrefix(group, []byte(blockMagic)) {
			group = append([]byte(importedMagic), m.Data...) // no group: verification reports that
		}
		return r.add(group)
	})
	if err = errors.Join(err, r.flush()); err != nil {
		return moved, fmt.Errorf("store: stream %s: %w", stream, err)
	}
	if err := synced(); err != nil {
		return moved, err
	}
	js, err := jetstream.New(s.state.conn)
	if err == nil {
		err = js.DeleteStream(ctx, stream)
	}
	return moved, err
}

// auditedBridges are those that have an audit trail.
func (s *Store) auditedBridges(ctx context.Context) (bridges []string, err error) {
	js, err := jetstream.New(s.state.conn)
	if err != nil {
		return nil, err
	}
	prefix, subject := auditNames(s.options.Prefix, "")
	err = insist(ctx, func(ctx context.Context) error {
		bridges = nil
		names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subject+"*"))
		for name := range names.Name() {
			if bridge, ok := strings.CutPrefix(name, prefix); ok {
				bridges = append(bridges, bridge)
			}
		}
		return names.Err()
	})
	slices.Sort(bridges)
	return bridges, err
}

func parseAuditLine(line []byte) (auditLine, error) {
	var l auditLine
	if err := json.Unmarshal(line, &l); err != nil {
		return l, err
	}
	switch {
	case !prefixRule.MatchString(l.Bridge):
		return l, fmt.Errorf("%q cannot be a bridge", l.Bridge)
	case len(l.Group) == 0:
		return l, errors.New("the group is empty")
	}
	return l, nil
}

// audited appends a group to its trail, unless that had entries before.
func (r *restorer) audited(line []byte) error {
	l, err := parseAuditLine(line)
	if err != nil {
		return err
	}
	if l.Bridge == r.store.trailOf {
		return r.local.add(l.Group)
	}
	trail, known := r.trails[l.Bridge]
	if !known {
		if trail, err = r.store.emptyTrail(r.ctx, l.Bridge); err != nil {
			return err
		}
		r.trails[l.Bridge] = trail
	}
	if trail == nil {
		return nil
	}
	return trail.Append(r.ctx, l.Group)
}

// emptyTrail opens the audit trail of a bridge, nil if it has entries.
func (s *Store) emptyTrail(ctx context.Context, bridge string) (*AuditLog, error) {
	trail, err := s.OpenAuditLog(ctx, bridge)
	if err != nil {
		return nil, err
	}
	bounds, err := trail.Bounds(ctx)
	if err != nil || bounds.First <= bounds.Last && bounds.Last > 0 {
		return nil, err
	}
	return trail, nil
}
