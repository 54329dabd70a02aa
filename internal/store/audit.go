package store

import (
	"context"
	"encoding/hex"
	"net/http"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/protocol"
)

// An AuditLog keeps the groups of one bridge's audit trail in a stream of its
// own, on the state connection: acknowledged groups survive a power cut. The stream
// is append-only: NATS refuses to delete single messages.
//
// Bridges that share a NATS have a stream each, by their ids; that two bridges
// write to the same is found out and fails with 5001.
type AuditLog struct {
	log recordLog
}

// AuditBounds are the positions of the first and the last group, none if Last
// is less than First, and the room the groups take on disk.
type AuditBounds struct{ First, Last, Bytes uint64 }

// OpenAuditLog makes the stream of a bridge's audit trail if it is missing.
func (s *Store) OpenAuditLog(ctx context.Context, bridge string) (*AuditLog, error) {
	bridge = trailName(bridge)
	ctx, cancel := context.WithTimeout(ctx, s.options.LoadTimeout)
	defer cancel()
	name, subject := auditNames(s.options.Prefix, bridge)
	err := s.makeStream(ctx, s.state, jetstream.StreamConfig{
		Name:        name,
		Description: "AI Bridge: what was decided and changed",
		Subjects:    []string{subject},
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		Replicas:    s.options.Replicas,
		DenyDelete:  true,
	})
	if err != nil {
		return nil, err
	}
	a := &AuditLog{newRecordLog(s, name, subject)}
	a.log.nc = s.state
	info, err := inspectMade(ctx, s.state, name)
	if err != nil {
		return nil, err
	}
	a.log.last = info.State.LastSeq
	return a, nil
}

// AuditLogs are the trails of all bridges that share the state, to be read. The names
// are the bridges' ids, of those that are known; others have that of their stream.
func (s *Store) AuditLogs(ctx context.Context, known []string) (map[string]*AuditLog, error) {
	bridges, err := s.auditedBridges(ctx)
	if err != nil {
		return nil, unread(err)
	}
	logs := make(map[string]*AuditLog)
	for _, bridge := range bridges {
		name, subject := auditNames(s.options.Prefix, bridge)
		a := &AuditLog{newRecordLog(s, name, subject)}
		a.log.nc = s.state
		logs[bridge] = a
	}
	for _, bridge := range known {
		if name := trailName(bridge); name != bridge && logs[name] != nil {
			logs[bridge] = logs[name]
			delete(logs, name)
		}
	}
	return logs, nil
}

// trailName is a bridge as the names of its trail have it.
func trailName(bridge string) string {
	if prefixRule.MatchString(bridge) {
		return bridge
	}
	return hex.EncodeToString([]byte(bridge))
}

// auditNames are the names of a bridge's audit trail.
func auditNames(prefix, bridge string) (stream, subject string) {
	return prefix + "-audit-" + bridge, prefix + ".audit." + bridge
}

// Largest is the number of bytes of a group at most, as NATS takes messages now: a group
// is one message, by whose position it is found.
func (a *AuditLog) Largest() int { return roomOf(a.log.nc, a.log.most) }

// Append stores a group. After an error the same group may be appended again,
// and is not stored twice. It fails with 5001 for one that is larger than
// [AuditLog.Largest]. One goroutine appends at a time.
func (a *AuditLog) Append(ctx context.Context, group []byte) error {
	if largest := a.Largest(); len(group) > largest {
		return protocol.Errorf(protocol.StoreUnavailable, "NATS takes groups of the audit trail of up to %d bytes, and this one has %d: raise max_payload of its servers", largest, len(group))
	}
	_, err := a.log.append(ctx, group)
	return err
}

// Bounds returns the first and the last group.
func (a *AuditLog) Bounds(ctx context.Context) (AuditBounds, error) {
	info, err := inspect(ctx, a.log.nc, a.log.stream)
	if err != nil {
		return AuditBounds{}, unread(err)
	}
	return AuditBounds{First: info.State.FirstSeq, Last: info.State.LastSeq, Bytes: info.State.Bytes}, nil
}

// Get returns the group at a position, nil if there is none.
func (a *AuditLog) Get(ctx context.Context, position uint64) ([]byte, error) {
	var got struct {
		Error   *apiError      `json:"error"`
		Message *storedMessage `json:"message"`
	}
	query := map[string]uint64{"seq": position}
	if err := ask(ctx, a.log.nc, "STREAM.MSG.GET."+a.log.stream, query, &got); err != nil {
		return nil, unread(err)
	}
	switch {
	case got.Error == nil && got.Message != nil:
		return groupOf(got.Message.Data), nil
	case got.Error == nil || got.Error.Code == http.StatusNotFound:
		return nil, nil
	}
	return nil, unread(got.Error)
}

// Read calls f for every group, the oldest first. A group that is missing in
// between is passed over: the trail's own chain of hashes shows that.
func (a *AuditLog) Read(ctx context.Context, f func(position uint64, group []byte) error) error {
	return readStream(ctx, a.log.nc, a.log.stream, func(m message) error { return f(m.seq, groupOf(m.Data)) })
}

// groupOf is a group without the header of its log.
func groupOf(data []byte) []byte {
	if len(data) < partHead || data[0] != partWhole {
		return nil
	}
	return data[partHead:]
}

// Trim forgets the groups before a position.
func (a *AuditLog) Trim(ctx context.Context, before uint64) error { return a.log.trim(ctx, before) }
