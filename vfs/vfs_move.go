package vfs

import (
	"context"

	"github.com/aibridge/aibridge/commands"
)

var moveFile = commands.Spec{
	Name:    "vfs.move",
	Summary: "Move a file, or all files of a folder, without moving their content. Their versions so far stay with the old path.",
	Effect:  commands.Write,
	Action:  "vfs:write",
	Errors:  transferErrors,
	Example: `{"group_name":"skill-a-group","path":"test-data-1.json","to_path":"archive/test-data-1.json"}`,
}

// MoveParams are the params of vfs.move.
type MoveParams struct {
	TransferParams
}

// Move moves a file or a folder between groups that the caller may write to. A file
// is copied before it is deleted, so that one of the two is always there.
func (s *Service) Move(ctx context.Context, call *commands.Call, p MoveParams) (TransferResult, error) {
	return s.transfer(ctx, call, Move, p.TransferParams, "vfs:read", "vfs:delete")
}
