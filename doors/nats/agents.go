package nats

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"github.com/aibridge/aibridge/protocol"
)

// The names of the agent protocol of Synadia, version 0.3.
const (
	agentsRoot      = "agents" // of subjects, name of the services, queue group
	agentsProtocol  = "0.3"
	agentHarness    = "aibridge" // the program that runs the agents
	promptVerb      = "prompt"
	statusVerb      = "status"
	heartbeatVerb   = "hb"
	beat            = 30 * time.Second
	maxAgents       = 256
	maxAgentText    = 512      // bytes of a description
	bridgeAgent     = "bridge" // token of the agent that is the bridge itself
	bridgeAgentText = "All that the bridge lets you use: skills, groups, workflows, and its language model"
)

// Agents are the bridge and its sets of skills, for clients that talk to agents.
type Agents struct {
	// List are the sets of skills that a principal may use, at most so many.
	List func(ctx context.Context, who *protocol.Principal, most int) []Agent
	// Admit returns the reason why a request of so many bytes exceeds a principal's
	// quota.
	Admit func(who *protocol.Principal, bytes int) error
	// Prompt has an agent answer, and returns when it has, or why it did not.
	Prompt func(ctx context.Context, p *Prompt) error
}

// An Agent is a set of skills as an agent.
type Agent struct {
	ID          protocol.SkillID
	Description string
}

// agents are the bridge's agents as services of NATS micro: an instance for each.
type agents struct {
	door    *Door
	owner   string
	process string // id of this process, of which those of instances are made
	version string
	started time.Time
	tally   tally // of prompts, by space and token
}

func newAgents(d *Door) *agents {
	return &agents{door: d, owner: d.Settings.Agents, process: nuid.Next(), version: semanticVersion(d.Version), started: time.Now().UTC()}
}

// An instance is an agent as this bridge runs it.
type instance struct {
	Agent
	token string // in subjects, and its session
	id    string
}

// newInstance is the instance of an agent. It reports false of a few whose names
// are no tokens of subjects, or that of the bridge.
func (a *agents) newInstance(agent Agent) (instance, bool) {
	token, err := subjectOf(string(agent.ID), false)
	if agent.ID == "" {
		token, err = bridgeAgent, nil
	} else if token == bridgeAgent {
		return instance{}, false
	}
	sum := sha256.Sum256([]byte(a.process + "\x00" + token))
	return instance{agent, token, base32.StdEncoding.EncodeToString(sum[:])[:22]}, err == nil && !strings.Contains(token, ".")
}

// serve subscribes to prompts, and to the queries about the agents.
func (a *agents) serve() error {
	for subject, handle := range map[string]nats.MsgHandler{
		a.subject(promptVerb, "*"): a.door.handler(a.begin, a.prompt), a.subject(statusVerb, "*"): a.status,
	} {
		if err := a.door.hear(subject, agentsRoot, handle); err != nil {
			return err
		}
	}
	for verb, tell := range map[micro.Verb]func(*instance, protocol.SpaceID) any{micro.PingVerb: a.ping, micro.InfoVerb: a.info, micro.StatsVerb: a.stats} {
		all := "$SRV." + verb.String()
		for _, subject := range []string{all, all + "." + agentsRoot, all + "." + agentsRoot + ".*"} {
			if err := a.door.hear(subject, "", a.teller(tell)); err != nil {
				return err
			}
		}
	}
	return nil
}

// subject is the subject of messages to an agent, or from it.
func (a *agents) subject(verb, token string) string {
	return strings.Join([]string{agentsRoot, verb, agentHarness, a.owner, token}, ".")
}

// list are the agents that clients without a credential may see, the bridge first:
// queries of the list carry no credential. It is empty if no principal stands for
// such clients.
func (a *agents) list() (list []instance, space protocol.SpaceID) {
	d := a.door
	if d.key == "" && !d.Dev {
		return nil, ""
	}
	who, err := d.Authenticate(d.ctx, http.Header{}, d.key)
	if err != nil {
		d.Log.Warn("doors.nats.principal names nobody", "error", err)
		return nil, ""
	}
	for _, agent := range append([]Agent{{Description: bridgeAgentText}}, d.Agents.List(d.ctx, who, maxAgents)...) {
		if one, ok := a.newInstance(agent); ok {
			list = append(list, one)
		}
	}
	return list, who.Home()
}

// teller answers a query about all agents, or about the one whose id ends the subject.
func (a *agents) teller(tell func(*instance, protocol.SpaceID) any) nats.MsgHandler {
	return func(m *nats.Msg) {
		if m.Reply == "" || a.door.foreign(m.Reply) {
			return
		}
		levels := strings.Split(m.Subject, ".")
		list, space := a.list()
		for i := range list {
			if len(levels) == 4 && levels[3] != list[i].id {
				continue
			}
			a.say(m.Reply, tell(&list[i], space))
		}
	}
}

// say publishes a value as JSON.
func (a *agents) say(subject string, value any) {
	body, err := json.Marshal(value)
	if err == nil {
		err = a.door.conn.Publish(subject, body)
	}
	if err != nil {
		a.door.Log.Warn("an agent of the bridge is not heard in NATS", "subject", subject, "error", err)
	}
}

func (a *agents) identity(of *instance) micro.ServiceIdentity {
	metadata := map[string]string{
		"agent": agentHarness, "owner": a.owner, "session": of.token, "protocol_version": agentsProtocol, "bridge_id": a.door.BridgeID,
	}
	if of.ID != "" {
		metadata["skill_id"] = string(of.ID)
	}
	return micro.ServiceIdentity{Name: agentsRoot, ID: of.id, Version: a.version, Metadata: metadata}
}

func (a *agents) ping(of *instance, _ protocol.SpaceID) any {
	return micro.Ping{ServiceIdentity: a.identity(of), Type: micro.PingResponseType}
}

func (a *agents) info(of *instance, _ protocol.SpaceID) any {
	return micro.Info{
		ServiceIdentity: a.identity(of), Type: micro.InfoResponseType, Description: strings.ToValidUTF8(of.Description[:min(len(of.Description), maxAgentText)], ""),
		Endpoints: []micro.EndpointInfo{
			{Name: promptVerb, Subject: a.subject(promptVerb, of.token), QueueGroup: agentsRoot, Metadata: map[string]string{
				"max_payload": payloadText(a.maxPayload()), "attachments_ok": "false",
			}},
			{Name: statusVerb, Subject: a.subject(statusVerb, of.token), QueueGroup: agentsRoot},
		},
	}
}

func (a *agents) stats(of *instance, space protocol.SpaceID) any {
	prompts := a.tally.of(string(space) + " " + of.token)
	prompts.Name, prompts.Subject, prompts.QueueGroup = promptVerb, a.subject(promptVerb, of.token), agentsRoot
	return micro.Stats{
		ServiceIdentity: a.identity(of), Type: micro.StatsResponseType, Started: a.started,
		Endpoints: []*micro.EndpointStats{&prompts, {Name: statusVerb, Subject: a.subject(statusVerb, of.token), QueueGroup: agentsRoot}},
	}
}

// maxPayload is the number of bytes that a prompt may have.
func (a *agents) maxPayload() int {
	most := a.door.Limits.MaxBytes
	if told := int(a.door.conn.MaxPayload()); told > 0 {
		most = min(most, told)
	}
	return most
}

// payloadText is a number of bytes as the protocol writes it.
func payloadText(bytes int) string {
	for _, unit := range []struct {
		size int
		name string
	}{{1 << 20, "MB"}, {1 << 10, "KB"}} {
		if bytes >= unit.size && bytes%unit.size == 0 {
			return strconv.Itoa(bytes/unit.size) + unit.name
		}
	}
	return strconv.Itoa(bytes) + "B"
}

// A heartbeat announces that an agent is online.
type heartbeat struct {
	Agent    string `json:"agent"`
	Owner    string `json:"owner"`
	Session  string `json:"session"`
	Instance string `json:"instance_id"`
	At       string `json:"ts"`
	Every    int    `json:"interval_s"`
}

func (a *agents) heartbeat(of *instance) heartbeat {
	return heartbeat{agentHarness, a.owner, of.token, of.id, time.Now().UTC().Format(time.RFC3339), int(beat / time.Second)}
}

// status answers with the content of a heartbeat.
func (a *agents) status(m *nats.Msg) {
	if m.Reply == "" || a.door.foreign(m.Reply) {
		return
	}
	list, _ := a.list()
	for i := range list {
		if a.subject(statusVerb, list[i].token) == m.Subject {
			a.say(m.Reply, a.heartbeat(&list[i]))
			return
		}
	}
	refusal := nats.NewMsg(m.Reply)
	fail(refusal, protocol.Errorf(protocol.NotFound, "there is no such agent here"))
	if err := a.door.conn.PublishMsg(refusal); err != nil {
		a.door.Log.Warn("an agent of the bridge is not heard in NATS", "subject", m.Subject, "error", err)
	}
}

// beat publishes heartbeats until ctx ends, at once and then at the interval that they announce.
func (a *agents) beat(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		if a.door.conn.IsConnected() {
			list, _ := a.list()
			for i := range list {
				a.say(a.subject(heartbeatVerb, list[i].token), a.heartbeat(&list[i]))
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
