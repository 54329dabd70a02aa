package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// An auditLine is one group of a bridge's audit trail in an archive. Its
// entries are chained by hashes, which nobody without the key can redo.
type auditLine struct {
	Bridge string `json:"bridge"` // as in the stream's name
	Group  []byte `json:"group"`
}

// backupAudit copies the audit trails of all bridges of this prefix.
func (s *Store) backupAudit(ctx context.Context, archive *archiveWriter) error {
	bridges, err := s.auditedBridges(ctx)
	if err != nil || len(bridges) == 0 {
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
				return nil // of no trail; to tell is for its verification
			}
			archive.manifest.Groups++
			return archive.line(auditLine{bridge, group})
		})
		if err != nil {
			return fmt.Errorf("stream %s: %w", stream, err)
		}
	}
	return nil
}

// auditedBridges are those that have an audit trail.
func (s *Store) auditedBridges(ctx context.Context) ([]string, error) {
	js, err := jetstream.New(s.state.conn)
	if err != nil {
		return nil, err
	}
	prefix, subject := auditNames(s.options.Prefix, "")
	names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subject+"*"))
	var bridges []string
	for name := range names.Name() {
		if bridge, ok := strings.CutPrefix(name, prefix); ok {
			bridges = append(bridges, bridge)
		}
	}
	slices.Sort(bridges)
	return bridges, names.Err()
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
