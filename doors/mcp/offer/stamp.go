package offer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Stamp implements [mcpdoor.Resources].
func (m resources) Stamp(ctx context.Context, env tools.Environment, uri string) (string, error) {
	switch {
	case uri == commandsURI: // of the program
		return "", nil
	case uri == toolsURI:
		box, err := m.Catalogue.Select(ctx, env, []string{"*"})
		if err != nil {
			return "", err
		}
		return box.Revision(), nil
	case strings.HasPrefix(uri, agentsURI):
		return m.agentStamp(ctx, env, uri)
	case strings.HasPrefix(uri, filesURI):
		return m.fileStamp(ctx, env, uri)
	}
	return "", protocol.Errorf(protocol.NotFound, "there is no such resource")
}

// agentStamp is the stamp of an agent's resource, without the time of the last
// heartbeat.
func (m resources) agentStamp(ctx context.Context, env tools.Environment, uri string) (string, error) {
	content, err := m.agent(ctx, env, uri)
	if err != nil {
		return "", err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(content.Data, &fields); err != nil {
		return "", protocol.Wrap(protocol.Internal, err, "the agent cannot be read")
	}
	delete(fields, "last_heartbeat")
	text, err := json.Marshal(fields)
	if err != nil {
		return "", protocol.Wrap(protocol.Internal, err, "the agent cannot be written")
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// fileStamp names the version of a file.
func (m resources) fileStamp(ctx context.Context, env tools.Environment, uri string) (string, error) {
	group, path, err := fileOf(uri)
	if err != nil {
		return "", err
	}
	who := env.Principal
	if err := m.Authorize(ctx, who, "vfs:read", commands.Resource{Type: "vfs", ID: group, Space: who.Space}); err != nil {
		return "", err
	}
	files, err := m.Files.For(ctx, who, group, false)
	if err != nil {
		return "", err
	}
	file, err := files.Stat(ctx, group, path)
	if err != nil {
		return "", err
	}
	return strconv.FormatUint(file.Version, 10) + " " + file.SHA256.String(), nil
}

// Touched returns the URI of the resource that a message of the bridge is about, or of
// the resource's folder; ok is false for other messages.
func Touched(topics protocol.Topics, message *protocol.Message) (uri string, ok bool) {
	rest, ours := topics.Under(message.Topic)
	if !ours {
		return "", false
	}
	family, leaf, _ := strings.Cut(rest, "/")
	var event struct {
		Data struct {
			Agent string `json:"agent_id"`
			Group string `json:"group_name"`
			Path  string `json:"path"`
		} `json:"data"`
	}
	switch {
	case family == "event" && (leaf == "agent" || leaf == "skill"):
		if json.Unmarshal(message.Payload, &event) != nil || event.Data.Agent == "" {
			return agentsURI, leaf == "skill"
		}
		return agentsURI + url.PathEscape(event.Data.Agent), true
	case family == "vfs" && strings.HasSuffix(leaf, "/event"):
		if json.Unmarshal(message.Payload, &event) != nil || event.Data.Group == "" {
			return "", false
		}
		if event.Data.Path == "" {
			return filesURI + url.PathEscape(event.Data.Group) + "/", true
		}
		return fileURI(event.Data.Group, event.Data.Path), true
	}
	return "", false
}
