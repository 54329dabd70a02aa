package toolhost

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/frontmatter"
	"github.com/aibridge/aibridge/llm/tools"
)

// updateFrontmatter is the only operation.
const updateFrontmatter = "updateFrontmatter"

// A patch is the change of fs.apply_patch, flat beside the path or in an object of its
// own.
type patch struct {
	Operation string          `json:"operation"`
	Update    json.RawMessage `json:"update"`
	IfMatch   string          `json:"ifMatchSha256"`
}

type patchArgs struct {
	Path  string `json:"path"`
	Patch *patch `json:"patch"`
	patch
}

// PatchResult is the result of fs.apply_patch.
type PatchResult struct {
	OK           bool   `json:"ok"`
	Path         string `json:"path"`
	SHA256Before string `json:"sha256Before"`
	SHA256After  string `json:"sha256After"`
}

func (b *bounded) patchTool() *tools.Tool {
	const updates = "{stepsCompleted: {append: [id]}, variables: {set: {name: value}}, " +
		"decisionLog: {append: [{from, to, label, reason}]}, artifacts: {append: [path]}, currentNodeId: {set: id}, updatedAt: {set: time}}, all of them optional"
	return tool("fs.apply_patch", "Patch frontmatter",
		"Change the YAML frontmatter of a Markdown file and leave the rest as it is. This is how "+StatePath+" is advanced: "+
			"append the step that is completed and set currentNodeId to the next, in one call. An update is "+updates+".",
		commands.Write, []tools.Parameter{
			{Name: "path", Kind: tools.String, Description: "File, beginning with @project/ or @state/.", Required: true, CaseSensitive: true, Example: exampleState},
			{Name: "patch", Kind: tools.JSONObject, Cardinality: tools.Optional, Description: "{operation: \"updateFrontmatter\", update: what to change, ifMatchSha256: optional}"},
			{Name: "operation", Kind: tools.String, Cardinality: tools.Optional, Description: "Instead of patch: updateFrontmatter."},
			{Name: "update", Kind: tools.JSONObject, Cardinality: tools.Optional, Description: "Instead of patch: what to change."},
			{Name: "ifMatchSha256", Kind: tools.String, Cardinality: tools.Optional, Description: matchText},
		}, b.applyPatch)
}

func (b *bounded) applyPatch(ctx context.Context, a patchArgs) (any, error) {
	place, err := b.opts.Mounts.ResolveWritable(a.Path)
	if err != nil {
		return nil, err
	}
	p := a.patch
	if a.Patch != nil {
		p.Operation = cmp.Or(a.Patch.Operation, p.Operation)
		p.IfMatch = cmp.Or(a.Patch.IfMatch, p.IfMatch)
		if len(a.Patch.Update) > 0 {
			p.Update = a.Patch.Update
		}
	}
	switch {
	case p.Operation != "" && p.Operation != updateFrontmatter:
		return nil, fault.Errorf(fault.SchemaValidation, "there is no operation %.50q, only %s", p.Operation, updateFrontmatter)
	case len(p.Update) == 0 || string(p.Update) == "null":
		return nil, fault.Errorf(fault.SchemaValidation, "patch.update is missing: what is to be changed?")
	}
	update, err := frontmatter.ParseUpdate(p.Update)
	if err != nil {
		return nil, err
	}
	change := func(text []byte) ([]byte, error) {
		doc, err := frontmatter.Parse(text)
		if err != nil {
			return nil, err
		}
		if update.Empty() {
			return text, nil
		}
		return doc.Apply(update)
	}
	before, after, err := b.change(ctx, place, p.IfMatch, true, change)
	if err != nil {
		return nil, err
	}
	return PatchResult{OK: true, Path: place.String(), SHA256Before: before.String(), SHA256After: after.String()}, nil
}
