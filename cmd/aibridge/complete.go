package main

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/app"
)

// completeTimeout bounds the requests to the bridge while a user waits behind the tab
// key. Without an answer by then only names are offered.
var completeTimeout = time.Second

// maxCompleted is the number of ids that are asked for, the most that a list has in a
// page.
const maxCompleted = 1000

// completable limits the ids that are offered to those that every shell takes as
// one plain word. Clients choose some ids themselves.
var completable = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N}._:@/-]*$`)

// completeCommand offers the commands of the bridge, and then the parameters of
// the one that was named.
func completeCommand(t *target) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return completeParameters(t, args[0], nil)(cmd, args[1:], word)
		}
		return completeNames(cmd, args, word)
	}
}

// completeNames offers the names of the bridge's commands.
func completeNames(_ *cobra.Command, args []string, word string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for command := range app.Commands().All() {
		names = append(names, cobra.CompletionWithDesc(command.Name, command.Summary))
	}
	return beginning(word, names), cobra.ShellCompDirectiveNoFileComp
}

// completeParameters offers for a command of the bridge the ids that may be
// meant by the next word, which names the first of the required parameters that
// is missing, or by the value of name=, and the names of parameters.
func completeParameters(t *target, command string, required []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		given, left := givenIn(args, required)
		if name, _, ok := strings.Cut(word, "="); ok {
			return beginning(word, withPrefix(name+"=", valuesOf(cmd, t, command, name, given))), cobra.ShellCompDirectiveNoFileComp
		}
		next := ""
		if len(left) > 0 {
			next = left[0]
		}
		offered := beginning(word, valuesOf(cmd, t, command, next, given))
		positional := len(offered) > 0
		for _, name := range slices.Sorted(maps.Keys(parameters(command))) {
			if _, ok := given[name]; !ok && !(positional && name == next) {
				offered = append(offered, beginning(word, []string{name + "="})...)
			}
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(offered) > 0 && strings.HasSuffix(offered[len(offered)-1], "=") {
			directive |= cobra.ShellCompDirectiveNoSpace // the value comes next
		}
		return offered, directive
	}
}

// completeArguments offers ids for the arguments of a command of this program,
// each of which is a parameter of a command of the bridge.
func completeArguments(t *target, command string, params ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		given, left := givenIn(args, params)
		if len(left) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return beginning(word, valuesOf(cmd, t, command, left[0], given)), cobra.ShellCompDirectiveNoFileComp
	}
}

// givenIn are the parameters that the words give, and the required ones that they
// do not give.
func givenIn(words, required []string) (given map[string]string, left []string) {
	given = make(map[string]string)
	named, err := nameWords(words, required)
	if err != nil {
		return given, nil // a word too many: nothing more fits
	}
	for _, word := range named {
		if name, value, ok := strings.Cut(word, "="); ok && !strings.ContainsAny(name, "{@") {
			given[name] = value
		}
	}
	left = slices.DeleteFunc(slices.Clone(required), func(name string) bool {
		_, ok := given[name]
		return ok
	})
	return given, left
}

// A parameter is the part of a parameter's schema that completion needs.
type parameter struct {
	Enum []any `json:"enum"`
}

// parameters are those of a command, by name.
func parameters(command string) map[string]parameter {
	var schema struct {
		Properties map[string]parameter `json:"properties"`
	}
	if json.Unmarshal(paramsSchema(command), &schema) != nil {
		return nil
	}
	return schema.Properties
}

// valuesOf are the values that a parameter of a command may have: those of its
// declaration, or the ids of existing things.
func valuesOf(cmd *cobra.Command, t *target, command, param string, given map[string]string) (values []string) {
	for _, value := range parameters(command)[param].Enum {
		if text, ok := value.(string); ok {
			values = append(values, text)
		}
	}
	if len(values) > 0 {
		return values
	}
	return completeIDs(cmd, t, command, param, given)
}

// completeIDs are the ids that a parameter of a command may name, each with its
// name. It is silent: if no bridge answers in time, there are none.
func completeIDs(cmd *cobra.Command, t *target, command, param string, given map[string]string) []string {
	list, ok := listOf(param)
	if !ok {
		return nil
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completeTimeout)
	defer cancel()
	bridge, err := t.dial(ctx)
	if err != nil {
		return nil
	}
	defer bridge.Close()
	rows, err := list.rows(ctx, bridge, list.asked(command, given))
	if err != nil {
		return nil
	}
	var ids []string
	for _, row := range rows {
		if id, ok := row.values[param].(string); ok && completable.MatchString(id) {
			ids = append(ids, cobra.CompletionWithDesc(id, aboutRow(row, id)))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// asked are the parameters with which a list is asked for: the ids that were
// given already, as far as the list can be narrowed by them, and the states in
// which the command can do something.
func (l idList) asked(command string, given map[string]string) map[string]any {
	params := map[string]any{}
	known := parameters(l.command)
	if _, ok := known["limit"]; ok {
		params["limit"] = maxCompleted
	}
	for name, value := range given {
		if _, ok := known[name]; ok && strings.HasSuffix(name, "_id") && name != l.param {
			params[name] = value
		}
	}
	switch command {
	case "approval.decide":
		params["state"] = "pending"
	case "task.cancel":
		params["unfinished"] = true
	}
	return params
}

// aboutRow describes the thing with an id in a few words.
func aboutRow(row *orderedObject, id string) string {
	var words []string
	for _, name := range []string{"name", "cap_id", "tool", "command", "status", "state"} {
		if text, ok := row.values[name].(string); ok && text != "" && text != id {
			words = append(words, inRow(printable(text)))
		}
	}
	return strings.Join(words, ", ")
}

// beginning are the completions that begin with a word.
func beginning(word string, completions []string) (fitting []string) {
	for _, c := range completions {
		if strings.HasPrefix(c, word) {
			fitting = append(fitting, c)
		}
	}
	return fitting
}

// withPrefix puts a prefix before each of the completions.
func withPrefix(prefix string, completions []string) []string {
	for i := range completions {
		completions[i] = prefix + completions[i]
	}
	return completions
}
