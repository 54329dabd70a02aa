package offer

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aibridge/aibridge/commands"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// URIs of resources.
const (
	commandsURI = "aibridge:///docs/commands"
	toolsURI    = "aibridge:///docs/tools"
	agentsURI   = "aibridge:///agents/"
	filesURI    = "vfs:///"
)

// maxResource is the greatest size of a file for a model, in bytes.
const maxResource = 4 << 20

// resources are files, agents and documentation that a principal may read.
type resources struct{ *Options }

// Templates implements [mcpdoor.Resources].
func (resources) Templates() []mcpdoor.Template {
	return []mcpdoor.Template{
		{URI: agentTemplate, Name: "agent", Description: "An agent: whether it is online, and its skills", MIMEType: "application/json"},
		{URI: fileTemplate, Name: "file", Description: "A file of the VFS"},
	}
}

// List implements [mcpdoor.Resources]: documentation, then agents, then the files of
// every group. A cursor holds the part and the place of the end of a page.
func (m resources) List(ctx context.Context, env tools.Environment, cursor string, limit int) ([]mcpdoor.Resource, string, error) {
	at, err := readPageStart(cursor)
	if err != nil {
		return nil, "", err
	}
	var all []mcpdoor.Resource
	for {
		some, next, err := m.part(ctx, env, at, limit-len(all))
		if err != nil {
			return nil, "", err
		}
		all = append(all, some...)
		switch {
		case next == (pageStart{}):
			return all, "", nil
		case len(all) >= limit:
			return all, next.cursor(), nil
		}
		at = next
	}
}

// A pageStart is where a page of resources begins.
type pageStart struct {
	Part   string `json:"p,omitempty"` // "" for documentation, agents, or files
	Group  string `json:"g,omitempty"` // of files
	Cursor string `json:"c,omitempty"` // of the list within
}

func (p pageStart) cursor() string {
	text, _ := json.Marshal(p) // three texts
	return base64.RawURLEncoding.EncodeToString(text)
}

func readPageStart(cursor string) (p pageStart, err error) {
	if cursor == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(text, &p) != nil || p.Part != "agents" && p.Part != "files" {
		return p, protocol.InvalidParam("cursor", "is not one that was given out here")
	}
	return p, nil
}

// part lists resources of one part, and returns the start of the next page; the zero
// pageStart is the end.
func (m resources) part(ctx context.Context, env tools.Environment, at pageStart, limit int) ([]mcpdoor.Resource, pageStart, error) {
	switch at.Part {
	case "agents":
		return m.agents(ctx, env, at, limit)
	case "files":
		return m.files(ctx, env, at, limit)
	}
	return []mcpdoor.Resource{
		{URI: commandsURI, Name: "commands", Title: "Commands", Description: "Every command of the bridge, with parameters, result and errors", MIMEType: "text/markdown"},
		{URI: toolsURI, Name: "tools", Title: "Tools", Description: "Every tool that you may call", MIMEType: "text/markdown"},
	}, pageStart{Part: "agents"}, nil
}

// A listedAgent is an agent of agent.list.
type listedAgent struct {
	ID     string `json:"agent_id"`
	Type   string `json:"type"`
	Name   string `json:"name"`
	Status string `json:"status"`
}

func (m resources) agents(ctx context.Context, env tools.Environment, at pageStart, limit int) ([]mcpdoor.Resource, pageStart, error) {
	var list struct {
		Agents []listedAgent `json:"agents"`
		Next   string        `json:"next_cursor"`
	}
	params := map[string]any{"limit": min(max(limit, 1), 1000)}
	if at.Cursor != "" {
		params["cursor"] = at.Cursor
	}
	err := m.ask(ctx, env, "agent.list", params, &list)
	if protocol.CodeOf(err) == protocol.PermissionDenied { // then there are none to see
		return nil, pageStart{Part: "files"}, nil
	}
	if err != nil {
		return nil, pageStart{}, err
	}
	some := make([]mcpdoor.Resource, 0, len(list.Agents))
	for _, agent := range list.Agents {
		some = append(some, mcpdoor.Resource{
			URI: agentsURI + url.PathEscape(agent.ID), Name: agent.ID, Title: agent.Name,
			Description: fmt.Sprintf("%s, %s", agent.Type, agent.Status), MIMEType: "application/json",
		})
	}
	if list.Next != "" {
		return some, pageStart{Part: "agents", Cursor: list.Next}, nil
	}
	return some, pageStart{Part: "files"}, nil
}

// files lists the files of a group, and returns the start of the next page or group.
func (m resources) files(ctx context.Context, env tools.Environment, at pageStart, limit int) ([]mcpdoor.Resource, pageStart, error) {
	groups := m.Files.GroupsFor(env.Principal)
	i, _ := slices.BinarySearch(groups, at.Group)
	if at.Group == "" {
		i = 0
	}
	if i == len(groups) {
		return nil, pageStart{}, nil
	}
	group := groups[i]
	if group != at.Group {
		at.Cursor = "" // the group is gone
	}
	next := pageStart{}
	if i+1 < len(groups) {
		next = pageStart{Part: "files", Group: groups[i+1]}
	}
	params := map[string]any{"group_name": group, "limit": min(max(limit, 1), 1000)}
	if at.Cursor != "" {
		params["cursor"] = at.Cursor
	}
	var list struct {
		Files []vfs.FileView `json:"files"`
		Next  string         `json:"next_cursor"`
	}
	err := m.ask(ctx, env, "vfs.list", params, &list)
	switch protocol.CodeOf(err) {
	case protocol.PermissionDenied, protocol.VFSPermission, protocol.VFSUnavailable, protocol.FileNotFound:
		return nil, next, nil
	}
	if err != nil {
		return nil, pageStart{}, err
	}
	some := make([]mcpdoor.Resource, 0, len(list.Files))
	for _, f := range list.Files {
		some = append(some, mcpdoor.Resource{URI: fileURI(group, f.Path), Name: group + "/" + f.Path, MIMEType: mediaType(f.ContentType, f.Path), Size: f.Size})
	}
	if list.Next != "" {
		next = pageStart{Part: "files", Group: group, Cursor: list.Next}
	}
	return some, next, nil
}

func fileURI(group, path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return filesURI + url.PathEscape(group) + "/" + strings.Join(parts, "/")
}

// Read implements [mcpdoor.Resources].
func (m resources) Read(ctx context.Context, env tools.Environment, uri string) (mcpdoor.Content, error) {
	switch {
	case uri == commandsURI:
		var text bytes.Buffer
		err := commands.WriteMarkdown(&text, m.Router.Set())
		return mcpdoor.Content{MIMEType: "text/markdown", Data: text.Bytes(), Text: true}, err
	case uri == toolsURI:
		return m.toolsText(ctx, env)
	case strings.HasPrefix(uri, agentsURI):
		return m.agent(ctx, env, uri)
	case strings.HasPrefix(uri, filesURI):
		return m.file(ctx, env, uri)
	}
	return mcpdoor.Content{}, protocol.Errorf(protocol.NotFound, "there is no such resource")
}

func (m resources) toolsText(ctx context.Context, env tools.Environment) (mcpdoor.Content, error) {
	box, err := m.Catalogue.Select(ctx, env, []string{"*"})
	if err != nil {
		return mcpdoor.Content{}, err
	}
	var text bytes.Buffer
	text.WriteString("# Tools\n")
	for _, t := range box.Tools() {
		fmt.Fprintf(&text, "\n%s", t.Markdown())
	}
	return mcpdoor.Content{MIMEType: "text/markdown", Data: text.Bytes(), Text: true}, nil
}

func (m resources) agent(ctx context.Context, env tools.Environment, uri string) (mcpdoor.Content, error) {
	id, err := url.PathUnescape(strings.TrimPrefix(uri, agentsURI))
	if err != nil {
		return mcpdoor.Content{}, protocol.Errorf(protocol.NotFound, "there is no such resource")
	}
	var agent json.RawMessage
	if err := m.ask(ctx, env, "agent.get", map[string]any{"agent_id": id}, &agent); err != nil {
		return mcpdoor.Content{}, err
	}
	return mcpdoor.Content{MIMEType: "application/json", Data: agent, Text: true}, nil
}

func (m resources) file(ctx context.Context, env tools.Environment, uri string) (mcpdoor.Content, error) {
	group, path, err := fileOf(uri)
	if err != nil {
		return mcpdoor.Content{}, err
	}
	who := env.Principal
	if err := m.Authorize(ctx, who, "vfs:read", commands.Resource{Type: "vfs", ID: group, Space: who.Space}); err != nil {
		return mcpdoor.Content{}, err
	}
	files, err := m.Files.For(ctx, who, group, false)
	if err != nil {
		return mcpdoor.Content{}, err
	}
	content, file, err := files.Open(ctx, group, path, 0)
	if err != nil {
		return mcpdoor.Content{}, err
	}
	defer content.Close() //nolint:errcheck // it was only read
	if file.Size > maxResource {
		return mcpdoor.Content{}, protocol.Errorf(protocol.PayloadTooLarge, "files of up to %d bytes can be read here; GET /vfs/download has larger ones", maxResource).
			With("limit", maxResource)
	}
	data, err := io.ReadAll(io.LimitReader(content, maxResource))
	if err != nil {
		return mcpdoor.Content{}, err
	}
	read := mcpdoor.Content{MIMEType: mediaType(file.ContentType, path), Data: data, Text: utf8.Valid(data) && !bytes.ContainsRune(data, 0)}
	if read.MIMEType == "" {
		read.MIMEType = "application/octet-stream"
		if read.Text {
			read.MIMEType = "text/plain"
		}
	}
	return read, nil
}

// mediaType is the media type of a file: the one set by its writer, or else that of its
// name, "" for none.
func mediaType(said, name string) string {
	if said != "" {
		return said
	}
	kind, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(name)), ";")
	return kind
}

// fileOf takes the URI of a file apart.
func fileOf(uri string) (group, path string, err error) {
	rawGroup, rawPath, ok := strings.Cut(strings.TrimPrefix(uri, filesURI), "/")
	group, err = url.PathUnescape(rawGroup)
	if err == nil {
		path, err = url.PathUnescape(rawPath)
	}
	if !ok || err != nil || group == "" || path == "" {
		return "", "", protocol.Errorf(protocol.FileNotFound, "there is no such file")
	}
	return group, path, nil
}
