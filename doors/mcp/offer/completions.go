package offer

import (
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Templates of the bridge's own resources.
const (
	agentTemplate = agentsURI + "{agent_id}"
	fileTemplate  = filesURI + "{group_name}/{+path}"
)

// Complete implements [mcpdoor.Completions]: ids of agents, names of groups of files,
// and paths of files, folder by folder.
func (m resources) Complete(ctx context.Context, env tools.Environment, template, argument, typed string, given map[string]string, limit int) (values []string, more bool, err error) {
	switch {
	case template == agentTemplate && argument == "agent_id":
		values, more, err = m.agentIDs(ctx, env, typed)
	case template == fileTemplate && argument == "group_name":
		values = m.Files.GroupsFor(env.Principal)
	case template == fileTemplate && argument == "path":
		values, more, err = m.paths(ctx, env, given["group_name"], typed)
	case template == agentTemplate || template == fileTemplate:
		return nil, false, protocol.InvalidParam("argument.name", "is none of the template's")
	default:
		return nil, false, protocol.InvalidParam("ref.uri", "is no template of the bridge")
	}
	switch protocol.CodeOf(err) {
	case protocol.PermissionDenied, protocol.VFSPermission, protocol.VFSUnavailable, protocol.FileNotFound: // then there are none to see
		return nil, false, nil
	}
	values = slices.DeleteFunc(values, func(v string) bool { return !strings.HasPrefix(v, typed) })
	slices.Sort(values)
	return values[:min(len(values), limit)], more || len(values) > limit, err
}

// agentIDs are ids of agents that contain a text, and whether there are more.
func (m resources) agentIDs(ctx context.Context, env tools.Environment, text string) (ids []string, more bool, err error) {
	var list struct {
		Agents []listedAgent `json:"agents"`
		Next   string        `json:"next_cursor"`
	}
	params := map[string]any{"limit": 1000}
	if text != "" && len(text) <= 128 {
		params["find"] = text
	}
	if err := m.ask(ctx, env, "agent.list", params, &list); err != nil {
		return nil, false, err
	}
	for _, agent := range list.Agents {
		ids = append(ids, agent.ID)
	}
	return ids, list.Next != "", nil
}

// paths are the entries of the folder that is typed so far: files, and folders
// with a slash behind them.
func (m resources) paths(ctx context.Context, env tools.Environment, group, typed string) (paths []string, more bool, err error) {
	if group == "" {
		return nil, false, nil
	}
	var list struct {
		Files []struct {
			Path string `json:"path"`
		} `json:"files"`
		Folders []string `json:"folders"`
		Next    string   `json:"next_cursor"`
	}
	params := map[string]any{"group_name": group, "folders": true, "limit": 1000}
	if at := strings.LastIndexByte(typed, '/'); at > 0 {
		params["path"] = typed[:at]
	}
	if err := m.ask(ctx, env, "vfs.list", params, &list); err != nil {
		return nil, false, err
	}
	for _, f := range list.Files {
		paths = append(paths, f.Path)
	}
	for _, folder := range list.Folders {
		paths = append(paths, strings.TrimSuffix(folder, "/")+"/")
	}
	return paths, list.Next != "", nil
}
