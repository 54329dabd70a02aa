package toolhost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
)

func TestARunKeepsNoMoreThanItsQuota(t *testing.T) {
	b := newBench(t)
	b.put(b.state, "logs/execution.jsonl", strings.Repeat("x", 5000)) // not the model's
	b.put(b.state, ".hidden/old.md", strings.Repeat("x", 300))        // of before a restart
	quota := int64(len(stateText)) + 1000
	b.host.opts.Quota.Bytes = quota
	b.call("fs.write", object{"path": "@state/a.md", "content": strings.Repeat("a", 400)})
	e := b.fails(fault.WriteLimit, "fs.write", object{"path": "@state/b.md", "content": strings.Repeat("b", 301)})
	b.equal(e["details"], object{"bytes": float64(quota + 1), "limit": float64(quota)})
	b.call("fs.write", object{"path": "@state/b.md", "content": strings.Repeat("b", 300)})

	set := func(n int) object {
		return update(object{"variables": object{"set": object{"note": strings.Repeat("n", n)}}})
	}
	before := b.get(b.state, "workflow.md")
	b.fails(fault.WriteLimit, "fs.apply_patch", set(100))
	b.fails(fault.WriteLimit, "fs.write", object{"path": "@state/a.md", "content": strings.Repeat("a", 401)})
	b.equal(b.get(b.state, "workflow.md"), before)
	b.call("fs.write", object{"path": "@state/a.md", "content": strings.Repeat("A", 400)}) // no more than before
	b.call("fs.write", object{"path": "@state/a.md", "content": ""})
	b.equal(b.call("fs.apply_patch", set(100))["ok"], true)
}

func TestAQuotaIsOfFilesAndTheirFoldersToo(t *testing.T) {
	b := newBench(t)
	b.host.opts.Quota.Files = 6 // of which workflow.md is one
	b.call("fs.write", object{"path": "@state/x/y/a.md", "content": ""})
	b.call("fs.write", object{"path": "@state/x/y/b.md", "content": ""})
	e := b.fails(fault.WriteLimit, "fs.write", object{"path": "@state/z/c.md", "content": ""})
	b.equal(e["details"], object{"files": 7.0, "limit": 6.0})
	b.call("fs.write", object{"path": "@state/x/c.md", "content": ""})
	b.fails(fault.WriteLimit, "fs.write", object{"path": "@state/x/d.md", "content": ""})
	b.call("fs.write", object{"path": "@state/x/c.md", "content": "it is there"})
	b.host = New(b.host.opts) // as after a restart
	b.fails(fault.WriteLimit, "fs.write", object{"path": "@state/x/d.md", "content": ""})
}

func TestOneTurnDoesNotOutrunTheQuota(t *testing.T) {
	b := newBench(t)
	b.host.opts.Quota.Files = 11
	args := make([]object, 30)
	for i := range args {
		args[i] = object{"path": fmt.Sprintf("@state/%d.md", i), "content": "x"}
	}
	written := 0
	for _, r := range b.turn("fs.write", args) {
		if r["ok"] == true {
			written++
		}
	}
	b.equal(written, 10)
}

func TestAProjectMayGrowByTheQuota(t *testing.T) {
	b := newBench(t)
	b.put(b.project, "large.md", strings.Repeat("x", 5000)) // the user's
	b.host.opts.Quota.Bytes = 1000
	b.call("fs.write", object{"path": "@project/a.md", "content": strings.Repeat("a", 1000)})
	b.fails(fault.WriteLimit, "fs.write", object{"path": "@project/b.md", "content": "b"})
	b.fails(fault.WriteLimit, "fs.write", object{"path": "@project/large.md", "content": strings.Repeat("x", 5001)})
	b.host.opts.Mounts.Project = struct{ mount.FS }{b.host.opts.Mounts.Project} // as a group, with a quota of its own
	b.call("fs.write", object{"path": "@project/b.md", "content": "b"})
}
