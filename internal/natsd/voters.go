package natsd

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	// runsTimeout is the time in which a server that runs answers.
	runsTimeout = 2 * time.Second
	// removeTimeout bounds the removal of a voter, which the others have to store.
	removeTimeout = 10 * time.Second
	// removeAgain is the time after which it is tried again, beside another change.
	removeAgain = 250 * time.Millisecond
	// listTimeout bounds a question for all streams: NATS waits four seconds for the
	// leaders of those that have none.
	listTimeout = 8 * time.Second
)

// ErrNoLeader reports that the servers of a cluster have no leader, and so no majority.
var ErrNoLeader = errors.New("the servers of the cluster have no leader")

// VoterID is the id of the server of a bridge among those that keep the state: NATS makes
// it from the server's name.
func VoterID(bridge string) string { return voterID(namePrefix + bridge) }

// voterID is the id of a server by its name.
func voterID(name string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(name))
	id := make([]byte, 8)
	for i := range id {
		id[i] = digits[int(sum[i])%len(digits)]
	}
	return string(id)
}

// Votes reports whether bridges form the cluster that this server belongs to, and so
// have voters.
func (s *Server) Votes() bool { return s.members != nil }

// Voters are the ids of the servers that keep copies of the state and elect the leader
// of the cluster. It fails with [ErrNoLeader] where there is none.
func (s *Server) Voters(ctx context.Context) (ids []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var said struct {
		Data server.JSInfo `json:"data"`
	}
	err = s.askSystem(ctx, "$SYS.REQ.SERVER.PING.JSZ", server.JSzOptions{LeaderOnly: true}, &said)
	meta := said.Data.Meta
	switch {
	case unanswered(err), err == nil && (meta == nil || meta.Peer == ""):
		return nil, ErrNoLeader
	case err != nil:
		return nil, err
	}
	ids = []string{meta.Peer}
	for _, r := range meta.Replicas {
		ids = append(ids, r.Peer)
	}
	return ids, nil
}

// Runs reports whether the server of a bridge answers, also while its bridge is no
// member of the cluster.
func (s *Server) Runs(ctx context.Context, bridge string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, runsTimeout)
	defer cancel()
	var said server.ServerStatsMsg
	err := s.askSystem(ctx, "$SYS.REQ.SERVER.PING", server.EventFilterOptions{Name: namePrefix + bridge, ExactMatch: true}, &said)
	if unanswered(err) {
		return false, nil
	}
	return err == nil, err
}

// unanswered reports whether a question went to nobody.
func unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders)
}

// RemoveVoter takes the server of a bridge out of those that elect the leader. The
// others make the copies that it had, where they are enough for that. It fails with
// [ErrNoLeader] where there is none; a server that is no voter is as good as removed.
func (s *Server) RemoveVoter(ctx context.Context, bridge string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for {
		again, err := s.removeVoter(ctx, bridge)
		if !again {
			return err
		}
		select {
		case <-time.After(removeAgain):
		case <-ctx.Done():
			return err
		}
	}
}

// removeVoter is RemoveVoter once. again reports that another change of the voters was
// under way.
func (s *Server) removeVoter(ctx context.Context, bridge string) (again bool, err error) {
	var answer server.JSApiMetaServerRemoveResponse
	err = s.askSystem(ctx, server.JSApiRemoveServer, server.JSApiMetaServerRemoveRequest{Peer: VoterID(bridge)}, &answer)
	switch {
	case unanswered(err):
		return false, ErrNoLeader
	case err != nil:
		return false, err
	case answer.Error == nil, server.IsNatsErr(answer.Error, server.JSClusterServerNotMemberErr):
		return false, nil
	}
	return server.IsNatsErr(answer.Error, server.JSClusterServerMemberChangeInflightErr), fmt.Errorf("natsd: remove the server of %q: %w", bridge, answer.Error)
}

// A Stream is the copies of a stream that the servers of a cluster keep.
type Stream struct {
	Name   string
	Leader string   // id of its leading voter, "" for none
	Wanted int      // copies
	On     []string // ids of the voters that are to keep one, the leader too
	Whole  []string // of these, those whose copy has all that was acknowledged
}

// Outlives reports whether most of the copies have all that was acknowledged, and are on
// living voters, also without the voter that leaves. NATS makes the missing ones from
// those that are left, also if they are not the newest.
func (s *Stream) Outlives(leaving string, living map[string]bool) bool {
	if s.Leader == "" || s.Leader == leaving {
		return false
	}
	if !slices.Contains(s.On, leaving) {
		return true
	}
	left := 0
	for _, on := range s.Whole {
		if on != leaving && living[on] {
			left++
		}
	}
	return 2*left > len(s.On)
}

// Streams are the copies of all streams.
func (s *Server) Streams(ctx context.Context) (all []Stream, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var page server.JSApiStreamListResponse
	for {
		request, err := json.Marshal(server.JSApiStreamListRequest{ApiPagedRequest: server.ApiPagedRequest{Offset: len(all)}})
		if err != nil {
			return nil, err
		}
		answer, err := s.state.RequestWithContext(ctx, server.JSApiStreamList, request)
		if err != nil {
			return nil, err
		}
		page = server.JSApiStreamListResponse{}
		if err := json.Unmarshal(answer.Data, &page); err != nil {
			return nil, err
		}
		if page.Error != nil {
			return nil, fmt.Errorf("natsd: list the streams: %w", page.Error)
		}
		for _, info := range page.Streams {
			all = append(all, streamOf(info))
		}
		for _, name := range page.Missing { // its leader does not answer
			all = append(all, Stream{Name: name})
		}
		if len(page.Streams)+len(page.Missing) == 0 || len(all) >= page.Total {
			return all, nil
		}
	}
}

func streamOf(info *server.StreamInfo) Stream {
	stream := Stream{Name: info.Config.Name, Wanted: info.Config.Replicas}
	if c := info.Cluster; c != nil {
		if c.Leader != "" {
			stream.Leader = voterID(c.Leader)
			stream.On, stream.Whole = append(stream.On, stream.Leader), append(stream.Whole, stream.Leader)
		}
		for _, r := range c.Replicas {
			if stream.On = append(stream.On, r.Peer); r.Current {
				stream.Whole = append(stream.Whole, r.Peer)
			}
		}
	}
	return stream
}

// askSystem asks the servers of the cluster something that those alone may who look
// after them, and reads the answer.
func (s *Server) askSystem(ctx context.Context, subject string, question, answer any) error {
	conn, err := s.embedded[0].system()
	if err != nil {
		return err
	}
	defer conn.Close()
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	said, err := conn.RequestWithContext(ctx, subject, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(said.Data, answer)
}
