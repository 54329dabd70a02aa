package run

import (
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/tools"
)

// ownTools are the file tools of a run.
func ownTools(mounts *mount.Mounts, w *workspace, p Policy) []*tools.Tool { return nil }
