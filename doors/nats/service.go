package nats

import (
	"encoding/json"
	"iter"
	"net/http"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"github.com/aibridge/aibridge/protocol"
)

// ServiceName is that of the service, for all bridges the same.
const ServiceName = "aibridge"

const (
	maxListed   = 1000      // capabilities that the service lists
	listedBytes = 512 << 10 // of them, so that they fit in one message
	maxSchema   = 4 << 10   // bytes of a listed schema
)

// A service announces the door's endpoints, by the rules of NATS micro.
type service struct {
	door     *Door
	identity micro.ServiceIdentity
	started  time.Time
	tally    tally // by subject; of capabilities, by space and subject
}

// semantic is the form that the version of a service must have.
var semantic = regexp.MustCompile(`^v?((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?)$`)

func newService(d *Door) *service {
	return &service{
		door: d, started: time.Now().UTC(),
		identity: micro.ServiceIdentity{
			Name: ServiceName, ID: nuid.Next(), Version: semanticVersion(d.Version),
			Metadata: map[string]string{"bridge_id": d.BridgeID, "protocol": protocol.Version},
		},
	}
}

// semanticVersion is the version of the program in the form of services.
func semanticVersion(version string) string {
	if found := semantic.FindStringSubmatch(version); found != nil {
		return found[1]
	}
	return "0.0.0"
}

// subjects are the control subjects of the service, with their handlers.
func (s *service) subjects() iter.Seq2[string, nats.MsgHandler] {
	answers := map[micro.Verb]func() any{
		micro.PingVerb:  func() any { return micro.Ping{ServiceIdentity: s.identity, Type: micro.PingResponseType} },
		micro.InfoVerb:  func() any { return s.info() },
		micro.StatsVerb: func() any { return s.statistics() },
	}
	return func(yield func(string, nats.MsgHandler) bool) {
		for verb, of := range answers {
			for _, whose := range [][2]string{{"", ""}, {s.identity.Name, ""}, {s.identity.Name, s.identity.ID}} {
				subject, err := micro.ControlSubject(verb, whose[0], whose[1])
				if err == nil && !yield(subject, s.responder(of)) {
					return
				}
			}
		}
	}
}

func (s *service) responder(of func() any) nats.MsgHandler {
	return func(m *nats.Msg) {
		if m.Reply == "" || s.door.foreign(m.Reply) {
			return
		}
		body, err := json.Marshal(of())
		if err == nil {
			err = m.Respond(body)
		}
		if err != nil {
			s.door.Log.Warn("NATS micro", "subject", m.Subject, "error", err)
		}
	}
}

func (s *service) info() micro.Info {
	endpoints, _ := s.endpoints()
	return micro.Info{
		ServiceIdentity: s.identity, Type: micro.InfoResponseType,
		Description: "AI Bridge: commands in the envelope of its protocol, and capabilities of skills",
		Endpoints:   endpoints,
	}
}

// endpoints are the public ones, and the capabilities that clients without a
// credential may invoke: queries of the list carry no credential.
func (s *service) endpoints() (list []micro.EndpointInfo, of protocol.SpaceID) {
	list = []micro.EndpointInfo{{
		Name: "request", Subject: s.door.Root + ".bridge.request", QueueGroup: queue,
		Metadata: map[string]string{"content": "request envelope of AI Bridge"},
	}}
	if s.door.key == "" && !s.door.Dev {
		return list, ""
	}
	who, err := s.door.Authenticate(s.door.ctx, http.Header{}, s.door.key)
	if err != nil {
		s.door.Log.Warn("doors.nats.principal names nobody", "error", err)
		return list, ""
	}
	room := listedBytes
	for _, c := range s.door.Offered(s.door.ctx, who, maxListed) {
		subject, ok := s.door.subjectOfSkill(c.Skill, c.ID)
		if !ok {
			continue
		}
		e := micro.EndpointInfo{
			Name: endpointName(c), Subject: subject, QueueGroup: queue,
			Metadata: map[string]string{"skill_id": string(c.Skill), "capability_id": string(c.ID)},
		}
		if c.Description != "" {
			e.Metadata["description"] = c.Description
		}
		if len(c.Params) > 0 && len(c.Params) <= maxSchema {
			e.Metadata["params_schema"] = string(c.Params)
		}
		for k, v := range e.Metadata {
			room -= 2 * (len(k) + len(v)) // quoted
		}
		if room -= 2*len(subject) + 128; room < 0 {
			break
		}
		list = append(list, e)
	}
	return list, who.Home()
}

// unnamed are the characters that no name of an endpoint has.
var unnamed = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

func endpointName(c Capability) string {
	return unnamed.ReplaceAllString(string(c.Skill)+"-"+string(c.ID), "_")
}

// statistics are those of the endpoints since the start.
func (s *service) statistics() micro.Stats {
	told := micro.Stats{ServiceIdentity: s.identity, Type: micro.StatsResponseType, Started: s.started}
	endpoints, space := s.endpoints()
	for i, e := range endpoints {
		key := e.Subject
		if i > 0 { // a capability
			key = string(space) + " " + key
		}
		stats := s.tally.of(key)
		stats.Name, stats.Subject, stats.QueueGroup = e.Name, e.Subject, e.QueueGroup
		told.Endpoints = append(told.Endpoints, &stats)
	}
	return told
}

// count notes the outcome of a request. Clients can invent subjects, so those
// without a success are not counted.
func (s *service) count(r *request, err *protocol.Error) {
	key := r.Subject
	if r.bare {
		key = string(r.who.Home()) + " " + key
	}
	s.tally.note(key, r.began, err, r.bare)
}
