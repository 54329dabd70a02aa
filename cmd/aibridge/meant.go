package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/protocol"
)

// An idList is the command that lists the things that a parameter names, and the
// field of its result that has the list.
type idList struct{ param, command, list string }

// idLists are the lists of all parameters that have one.
var idLists = []idList{
	{"skill_id", "skill.discover", "skills"},
	{"agent_id", "agent.list", "agents"},
	{"cap_id", "cap.query", "caps"},
	{"group_id", "group.list", "groups"},
	{"task_id", "task.list", "tasks"},
	{"approval_id", "approval.list", "approvals"},
	{"resource_id", "resource.list", "resources"},
	{"run_id", "llm.run.list", "runs"},
	{"client_id", "session.list", "sessions"},
	{"message_id", "delayed.list", "messages"},
	{"queue", "queue.list", "queues"},
}

// listOf is the list of the things that a parameter names.
func listOf(param string) (idList, bool) {
	at := slices.IndexFunc(idLists, func(l idList) bool { return l.param == param })
	if at < 0 {
		return idList{}, false
	}
	return idLists[at], true
}

// rows asks for the list.
func (l idList) rows(ctx context.Context, bridge *client.Client, params map[string]any) ([]*orderedObject, error) {
	result, err := client.Call[map[string]json.RawMessage](ctx, bridge, l.command, params)
	if err != nil {
		return nil, err
	}
	rows, _ := objects(parseOrdered(result[l.list]))
	return rows, nil
}

// meant adds the nearest existing id to an error about something that was not found: of
// the ids that the caller may list anyway.
func meant(ctx context.Context, bridge *client.Client, params map[string]any, err error) error {
	var coded *protocol.Error
	if !errors.As(err, &coded) || coded.Code != protocol.NotFound || coded.Details["did_you_mean"] != nil {
		return err
	}
	for _, l := range idLists {
		said, ok := params[l.param].(string)
		if !ok {
			continue
		}
		rows, failed := l.rows(ctx, bridge, map[string]any{})
		if failed != nil {
			continue
		}
		ids := identifiers(rows, l.param)
		if slices.Contains(ids, said) {
			continue // that one is there
		}
		if near, ok := schema.Nearest(said, slices.Values(ids)); ok {
			return coded.With("did_you_mean", near)
		}
	}
	return err
}

// identifiers are the values of a field in a list of objects.
func identifiers(rows []*orderedObject, field string) (ids []string) {
	for _, row := range rows {
		if id, ok := row.values[field].(string); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
