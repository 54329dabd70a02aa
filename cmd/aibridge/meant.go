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

// listsOf are the commands that list what a parameter names, and where in their
// results.
var listsOf = []struct{ param, command, list string }{
	{"skill_id", "skill.discover", "skills"},
	{"agent_id", "agent.list", "agents"},
	{"cap_id", "cap.query", "caps"},
	{"scene_id", "scene.query", "scenes"},
}

// meant adds to an error about something that is not there what was probably
// meant: of the things that whoever asks may list anyway.
func meant(ctx context.Context, bridge *client.Client, params map[string]any, err error) error {
	var coded *protocol.Error
	if !errors.As(err, &coded) || coded.Code != protocol.NotFound || coded.Details["did_you_mean"] != nil {
		return err
	}
	for _, l := range listsOf {
		said, ok := params[l.param].(string)
		if !ok {
			continue
		}
		result, failed := client.Call[map[string]json.RawMessage](ctx, bridge, l.command, map[string]any{})
		if failed != nil {
			continue
		}
		ids := identifiers(result[l.list], l.param)
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
func identifiers(list json.RawMessage, field string) (ids []string) {
	rows, _ := objects(parseOrdered(list))
	for _, row := range rows {
		if id, ok := row.values[field].(string); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
